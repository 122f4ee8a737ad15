/* SPDX-License-Identifier: MIT */
/*
 * Several files as one path of a store's URI: a pattern (`csv:part-*.csv`) or a folder
 * (`csv:parts`), sorted by the bytes of their names. An existing file whose name looks like a
 * pattern is that file.
 */
#ifndef LOADER_STORE_STORE_FILES_H
#define LOADER_STORE_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct store_files {
    char **paths; /* owned; [count]; NULL: the path is one file, or does not exist */
    size_t count;
};

/* Does the name end in one of `endings` (".csv|.tsv"), ignoring case? */
bool store_path_ends_in(const char *path, const char *endings);

/* `endings` (".csv|.tsv") select a folder's files; hidden ones never count. ERROR_INPUT: a folder
 * has none, or a file is there twice, once with .gz or .zst appended; ERROR_NOT_FOUND: a pattern
 * matches none. */
enum error store_files_find(struct store_files *files, const char *path,
                            const char *endings) MUST_CHECK;
void store_files_release(struct store_files *files);

#endif
