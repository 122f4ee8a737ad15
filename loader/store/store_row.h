/* SPDX-License-Identifier: MIT */
/*
 * One row as a kind of store decodes it, and whether it still is what open() saw. A kind of store
 * prefixes the message with where the row stands.
 */
#ifndef LOADER_STORE_STORE_ROW_H
#define LOADER_STORE_STORE_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/store/label_dictionary.h"
#include "loader/store/store.h"

struct store_row {
    int64_t id;               /* -1 without an id column */
    struct text label, group; /* valid until the next row; length 0 without such a column */
    double weight;            /* 1 without a weight column */
    size_t length;            /* how many features it has, where rows differ in that; else 0 */
    bool is_u8;               /* every feature is an integer 0..255, or was asked for as i32; true
                               * without features */
    enum row_status status;   /* ROW_BAD: error_message() says which feature */
};

/* A row before its values are read. */
static const struct store_row store_row_fresh = {.id = -1,
                                                 .label = {.data = ""},
                                                 .group = {.data = ""},
                                                 .weight = 1,
                                                 .is_u8 = true,
                                                 .status = ROW_OK};

/* The label as fetch() gives it; 0 for a row that is ROW_BAD. ERROR_INPUT: id, features or label
 * are not what they were when `opened` ("the file") was opened. */
enum error store_row_check(const struct store_row *row, int64_t id, const struct store_info *info,
                           const struct label_dictionary *labels, const char *opened,
                           double *ret_label) MUST_CHECK;

#endif
