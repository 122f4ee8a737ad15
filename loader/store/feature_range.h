/* SPDX-License-Identifier: MIT */
/*
 * How large a store's features get, judged by its first rows. Bytes are assumed to be shades from 0
 * to 255 unless otherwise specified (trainer: --feature-scale), but a table of small integers is u8
 * too, and almost vanishes when multiplied by 1/255. Integers above 2^24 are rounded unless
 * integers are requested (element=i32).
 */
#ifndef LOADER_STORE_FEATURE_RANGE_H
#define LOADER_STORE_FEATURE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

/* Rows to read: enough to judge by, few enough to be quick. */
#define FEATURE_RANGE_ROWS 1000
/* Under a quarter of the range: even among a thousand dark pictures some pixel is brighter; counts,
 * grades and flags are not. */
#define FEATURE_RANGE_SMALL 64

struct feature_range {
    int64_t rows;        /* rows examined; 0: no features, or integers */
    int largest;         /* of bytes */
    bool has_fractions;  /* of floats: not all are whole numbers */
    float largest_float; /* absolute value */
};

/* Adds a block of rows of u8 or f32 features. */
void feature_range_add(struct feature_range *range, const struct store_info *info,
                       const struct store_block *block);
/* Adds rows of f32 features, `count` in all. */
void feature_range_add_floats(struct feature_range *range, const void *features, size_t count,
                              size_t rows);

/* Examines the first FEATURE_RANGE_ROWS rows. Reads no more of the store than that needs. */
enum error feature_range_find(struct store *store, struct feature_range *ret_range) MUST_CHECK;

/* Are the floats whole numbers that may have been rounded, and would fit integers? */
bool feature_range_is_rounded(const struct feature_range *range);
#define FEATURE_RANGE_ROUNDED                                                                   \
    "whole numbers of 2^24 and more, which 32-bit floats round; element=i32 in the URI of the " \
    "source makes them integers"

/* Is 1/255 probably the wrong factor? */
bool feature_range_is_small(const struct feature_range *range);

#endif
