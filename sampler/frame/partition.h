/* SPDX-License-Identifier: MIT */
/*
 * A column of texts that partitions N units into L categories (labels into strata, groups into
 * clusters): the category of each row, and the rows of each category in frame order. Three forms:
 *
 *   cyclic  category(row) = (row + shift) mod L: nothing is stored. `range:` stores, frames without
 *           labels (L = 1), and whatever list happens to look like that.
 *   stored  codes[N], and rows[N] sorted by category, row: category c's rows are
 *           rows[starts[c]] ... rows[starts[c + 1] - 1], ascending
 *   view    some rows of another partition, in their order (partition_view.c). A category of which
 *           no row is left is gone, and the others are numbered as if the rest had never been.
 *
 * Immutable; any thread. A mapped file may be damaged: values read from codes and rows are kept
 * below L and N, so that wrong bytes give wrong units, never a crash.
 *
 * Dimensions: N units, L categories.
 */
#ifndef SAMPLER_FRAME_PARTITION_H
#define SAMPLER_FRAME_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/dictionary.h"
#include "sampler/frame/packed.h"
#include "sampler/frame/rank_bitmap.h"

struct partition;

/* A form. Rows, ranks and categories are in range. */
struct partition_ops {
    uint32_t (*category)(const struct partition *partition, int64_t row);
    /* partition_gather(), partition_gather_categories(), partition_read_categories(),
     * partition_rows_before() */
    void (*gather)(const struct partition *partition, uint32_t category, const uint64_t *ranks,
                   size_t count, int64_t *ret_rows);
    void (*gather_categories)(const struct partition *partition, const int64_t *rows, size_t count,
                              uint32_t *ret_categories);
    void (*read_categories)(const struct partition *partition, int64_t first, size_t count,
                            uint32_t *ret_categories);
    int64_t (*rows_before)(const struct partition *partition, uint32_t category, int64_t row);
    void (*release)(struct partition *partition); /* frees what only this form has; NULL: nothing */
};

extern const struct partition_ops partition_cyclic, partition_stored;

struct partition {
    const struct partition_ops *ops; /* NULL: nothing to release */
    int64_t units;                   /* N */
    struct dictionary dictionary;    /* [L] */
    uint32_t count;                  /* L */
    uint32_t shift;                  /* cyclic: category of row 0 */
    struct packed codes;             /* stored: [N] */
    struct packed rows;              /* stored: [N] */
    struct packed starts;            /* stored and view: [L + 1], units in earlier categories */
    struct partition_view *view;     /* view: owned */
};

static inline bool partition_is_cyclic(const struct partition *partition)
{
    return partition->ops == &partition_cyclic;
}

/* N units of L = min(N, labels) categories, category(row) = row mod L, named 0 ... L-1. */
enum error partition_of_range(struct partition *partition, int64_t units,
                              uint32_t labels) MUST_CHECK;
/* N units of one category named 0, which is how loader/store/store.h reads missing labels. */
enum error partition_of_nothing(struct partition *partition, int64_t units) MUST_CHECK;
void partition_release(struct partition *partition);

/* Units of a category. */
int64_t partition_units(const struct partition *partition, uint32_t category);

/* Row -> category. O(1). */
uint32_t partition_category(const struct partition *partition, int64_t row);
/* The j-th row of a category, 0 <= j < partition_units(). O(1). */
int64_t partition_row(const struct partition *partition, uint32_t category, int64_t j);

/* The same for many ranks of one category: ret_rows[i] for ranks[i]. */
void partition_gather(const struct partition *partition, uint32_t category, const uint64_t *ranks,
                      size_t count, int64_t *ret_rows);
/* The categories of many rows; of rows first, first + 1, ... */
void partition_gather_categories(const struct partition *partition, const int64_t *rows,
                                 size_t count, uint32_t *ret_categories);
void partition_read_categories(const struct partition *partition, int64_t first, size_t count,
                               uint32_t *ret_categories);

/* The row's rank j in its category. O(log N). */
int64_t partition_rank(const struct partition *partition, int64_t row);
/* Number of rows before `row` (0 ... N) in the category. O(log N). */
int64_t partition_rows_before(const struct partition *partition, uint32_t category, int64_t row);
/* The start of a category if all rows are ordered by category (cyclic: categories in the order of
 * their first rows), each in frame order. */
int64_t partition_start(const struct partition *partition, uint32_t category);

#endif
