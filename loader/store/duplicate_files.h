/* SPDX-License-Identifier: MIT */
/*
 * Detects a file that is listed twice, even under two names, so that the error names the file
 * rather than duplicate ids. One thread.
 */
#ifndef LOADER_STORE_DUPLICATE_FILES_H
#define LOADER_STORE_DUPLICATE_FILES_H

#include <stddef.h>

#include "common/error.h"

struct listed_file;

/* Zeroed: none. */
struct duplicate_files {
    struct listed_file *items; /* owned; [count] */
    size_t count, capacity;
};

/* ERROR_INPUT: the file was added before, with the same parameters of its URI (others may mean
 * another table of the file). A file that does not exist is ignored: opening it reports that. */
enum error duplicate_files_add(struct duplicate_files *files, const char *path,
                               const char *parameters) MUST_CHECK;
void duplicate_files_release(struct duplicate_files *files);

#endif
