/* SPDX-License-Identifier: MIT */
/*
 * One decoded row, and the check that it still is what open() saw. A kind of store prepends the
 * row's location to the message.
 */
#ifndef LOADER_STORE_STORE_ROW_H
#define LOADER_STORE_STORE_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/column/label_dictionary.h"
#include "loader/store/store.h"

struct store_row {
    int64_t id;               /* -1 without an id column */
    struct text label, group; /* valid until the next row; length 0 if there is no such column */
    double weight;            /* 1 if there is no weight column */
    size_t length;            /* its number of features, if rows differ in length; else 0 */
    bool is_u8;               /* every feature is an integer 0..255, or was requested as i32; true
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

/* The label as fetch() returns it; 0 for a ROW_BAD row. ERROR_INPUT: id, features or label have
 * changed since `opened` ("the file") was opened. */
enum error store_row_check(const struct store_row *row, int64_t id, const struct store_info *info,
                           const struct label_dictionary *labels, const char *opened,
                           double *ret_label) MUST_CHECK;

#endif
