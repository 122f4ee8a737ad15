/* SPDX-License-Identifier: MIT */
/*
 * `longest=any|N` of a store's URI: rows may differ in length, up to a limit. A batch of such rows
 * is padded with zeros to its longest row, or to N.
 */
#ifndef LOADER_COLUMN_ROW_LIMIT_H
#define LOADER_COLUMN_ROW_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/uri.h"

/* How many features rows have. */
enum row_lengths {
    LENGTHS_ALIKE,  /* F for all rows */
    LENGTHS_VARY,   /* they vary; F is that of the longest row (longest=any) */
    LENGTHS_LIMITED /* they vary; F is longest=, and the width of every batch */
};

#define ROW_LIMIT_MOST ((size_t)1 << 30)

/* Zeroed: all rows alike. */
struct row_limit {
    enum row_lengths lengths;
    size_t longest; /* for LENGTHS_LIMITED; ROW_LIMIT_MOST with LENGTHS_VARY, 0 with
                     * LENGTHS_ALIKE */
};

/* For rows that differ although they should not. */
#define ROW_LIMIT_HINT "; longest=any in the URI takes rows of different lengths"

/* ERROR_USAGE: the value is neither. */
enum error row_limit_read(struct row_limit *limit, struct uri *uri) MUST_CHECK;

static inline bool row_limit_varies(const struct row_limit *limit)
{
    return limit->lengths != LENGTHS_ALIKE;
}

/* F of a store whose longest row has `longest` features. */
static inline size_t row_limit_features(const struct row_limit *limit, size_t longest)
{
    return limit->lengths == LENGTHS_LIMITED ? limit->longest : longest;
}

/* ERROR_INPUT: a row of `length` features is too long; the caller names the row. */
enum error row_limit_refuse(const struct row_limit *limit, size_t length) MUST_CHECK;

#endif
