/* SPDX-License-Identifier: MIT */
/*
 * What a caller wants of a store when it is opened, of what its URI selects: of its columns, and of
 * their encoding.
 */
#ifndef LOADER_COLUMN_READ_OPTIONS_H
#define LOADER_COLUMN_READ_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct feature_recipe;

/* All zeros: everything. Borrowed. */
struct read_options {
    bool keys_only; /* no features will be read: store_open() in store_open.h */
    /* Only these features, in the store's order; a weight may be among them. */
    const char *const *columns;
    size_t column_count; /* 0: all features */
    /* How missing values and texts are encoded (feature_recipe.h); if it is not made yet, open()
     * only learns it, and the store is closed again. NULL: features are numbers already. */
    struct feature_recipe *recipe;
    uint64_t cache_bytes; /* of a row cache that follows: see take_rows(); 0: none */
};

#endif
