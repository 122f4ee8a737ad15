/*
 * The files that one store's URIs have led to so far, so that one that is given twice, be it under
 * two names, is told as such, and not as ids that come twice. One thread.
 */
#ifndef LOADER_STORE_DUPLICATE_FILES_H
#define LOADER_STORE_DUPLICATE_FILES_H

#include <stddef.h>

#include "common/error.h"

struct given_file;

/* Zeroed: none. */
struct duplicate_files {
    struct given_file *items; /* owned; [count] */
    size_t count, capacity;
};

/* ERROR_INPUT: it was given before, by a URI with the same parameters (others may mean another
 * table of the file). What is not there is passed over: whoever opens it says so. */
enum error duplicate_files_add(struct duplicate_files *files, const char *path,
                               const char *parameters) MUST_CHECK;
void duplicate_files_release(struct duplicate_files *files);

#endif
