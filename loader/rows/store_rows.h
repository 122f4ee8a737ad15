/* SPDX-License-Identifier: MIT */
/*
 * A row file as a store. Opening reads the header, and the ids where they are not consecutive; rows
 * come in the file's order, which is that of the store it was made of.
 */
#ifndef LOADER_ROWS_STORE_ROWS_H
#define LOADER_ROWS_STORE_ROWS_H

#include "loader/rows/rows_header.h"
#include "loader/store/id_index.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

struct rows_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct file_identity identity;
    struct rows_header header;
    struct id_index ids; /* rows 0: opened for keys only */
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    bool is_copy; /* strided_reader.h; set by who opened it, before the first reader: a row cache */
};

/* store_rows_scan.c, store_rows_fetch.c */
enum error rows_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                           void *context) MUST_CHECK;
enum error rows_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;

#endif
