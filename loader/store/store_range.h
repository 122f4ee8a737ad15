/* SPDX-License-Identifier: MIT */
/*
 * `range:N?labels=K`: N units with ids 0 ... N-1 and label id mod K (without `labels`: no labels),
 * no features. For trials at any size; nothing is stored.
 */
#ifndef LOADER_STORE_STORE_RANGE_H
#define LOADER_STORE_STORE_RANGE_H

#include <stdint.h>

#include "loader/store/store.h"

#define RANGE_UNITS_LIMIT (INT64_C(1) << 61)
#define RANGE_LABELS_LIMIT (INT64_C(1) << 24)

struct range {
    int64_t units;  /* N, 1 to RANGE_UNITS_LIMIT */
    int64_t labels; /* K, 1 to RANGE_LABELS_LIMIT; 0: no labels */
};

/* Reads path and query of a URI of scheme "range"; ERROR_USAGE says what is allowed. */
enum error range_parse(struct uri *uri, struct range *ret_range) MUST_CHECK;

#endif
