/* SPDX-License-Identifier: MIT */
/*
 * An IDX file as a store, with the labels of a second one. Ids are row numbers. Labels are read
 * when the store is opened. Values that are bytes are used as they are; others are checked once, as
 * a CSV's are: u8 if all are integers from 0 to 255, i32 if the URI requests it.
 */
#ifndef LOADER_IDX_STORE_IDX_H
#define LOADER_IDX_STORE_IDX_H

#include "loader/idx/idx_text.h"
#include "loader/store/store.h"

struct idx_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct idx_text text;
    int32_t *labels; /* owned; [rows]; NULL: none */
    char **names;    /* owned; [F], in one block */
    char *first_bad; /* owned; the message about the first bad row; NULL: none */
};

/* store_idx_rows.c */
enum error idx_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                          void *context) MUST_CHECK;
bool idx_reader_has_run(struct reader *reader, int64_t *ret_first);
enum error idx_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
/* Decodes a row's features from its bytes in the file, as `element`. ROW_BAD: one is not a number
 * that fits; error_message() says which. *ret_is_u8: all are integers from 0 to 255. */
enum row_status idx_row_decode(const struct idx_store *store, int64_t row, const uint8_t *bytes,
                               enum element element, void *features, bool *ret_is_u8);
enum error idx_row_locate(struct store *store, int64_t row, char out[STORE_PLACE_BYTES]) MUST_CHECK;

#endif
