/* SPDX-License-Identifier: MIT */
/*
 * Several files behind one path of a store's URI: a pattern (`csv:part-*.csv`) or a folder
 * (`csv:parts`), in the order of the bytes of their names. A file that is called like a pattern is
 * itself.
 */
#ifndef LOADER_STORE_STORE_FILES_H
#define LOADER_STORE_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct store_files {
    char **paths; /* owned; [count]; NULL: the path is one file, or nothing that is there */
    size_t count;
};

/* Does the name end in one of `endings` (".csv|.tsv"), in upper or lower case? */
bool store_path_ends_in(const char *path, const char *endings);

/* `endings` (".csv|.tsv") are those of a folder's files that count; hidden ones never do.
 * ERROR_INPUT where a folder, ERROR_NOT_FOUND where a pattern leads to none; ERROR_INPUT as well
 * where a file is there twice, once with .gz or .zst behind its name. */
enum error store_files_find(struct store_files *files, const char *path,
                            const char *endings) MUST_CHECK;
void store_files_release(struct store_files *files);

#endif
