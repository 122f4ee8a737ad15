/*
 * A column of texts that parts N units into L classes (labels into strata, groups into clusters):
 * the class of each row, and the rows of each class in frame order. Three forms:
 *
 *   cyclic  class(row) = (row + shift) mod L: nothing is stored. `range:` stores, frames without
 *           labels (L = 1), and whatever list happens to look like that.
 *   stored  codes[N], and rows[N] sorted by class, row: class c's rows are
 *           rows[starts[c]] ... rows[starts[c + 1] - 1], ascending
 *   view    some rows of another partition, in their order (partition_view.c). A class of which no
 *           row is left is gone, and the others are numbered as if the rest had never been.
 *
 * Immutable; any thread. The memory may be a damaged file's: what is read from codes and rows is
 * kept below L and N, so that wrong bytes give wrong units, never a crash.
 *
 * Dimensions: N units, L classes.
 */
#ifndef SAMPLER_FRAME_PARTITION_H
#define SAMPLER_FRAME_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/dictionary.h"
#include "sampler/frame/packed.h"
#include "sampler/frame/rank_bitmap.h"

struct partition_view; /* partition_view.c */

struct partition {
    int64_t units;           /* N */
    struct dictionary names; /* [L] */
    uint32_t count;          /* L */
    bool is_cyclic;
    uint32_t shift;              /* cyclic: the class of row 0 */
    struct packed codes;         /* stored: [N] */
    struct packed rows;          /* stored: [N] */
    struct packed starts;        /* stored and view: [L + 1], units in classes before */
    struct partition_view *view; /* owned; NULL: stored or cyclic */
};

/* N units of L = min(N, labels) classes, class(row) = row mod L, named 0 ... L-1. */
enum error partition_of_range(struct partition *partition, int64_t units,
                              uint32_t labels) MUST_CHECK;
/* N units of one class named 0, as which loader/store/store.h reads labels that are not there. */
enum error partition_of_nothing(struct partition *partition, int64_t units) MUST_CHECK;
/* Rows [begin, end), begin < end, of `whole`, which must outlive them. Memory: O(L). */
enum error partition_of_rows(struct partition *partition, const struct partition *whole,
                             int64_t begin, int64_t end) MUST_CHECK;
/* The rows of `whole` that `chosen` has (at least one); both must outlive the view. Memory: 0.134
 * bytes a unit of `whole`, and O(L); nothing a unit where `has_whole_classes`: the chosen rows are
 * those of some classes altogether. */
enum error partition_of_selection(struct partition *partition, const struct partition *whole,
                                  const struct rank_bitmap *chosen,
                                  bool has_whole_classes) MUST_CHECK;
void partition_release(struct partition *partition);

/* Units of a class. */
int64_t partition_units(const struct partition *partition, uint32_t class);

uint32_t partition_view_class(const struct partition *partition, int64_t row);
int64_t partition_view_row(const struct partition *partition, uint32_t class, int64_t j);

/* Row -> class. O(1). */
static inline uint32_t partition_class(const struct partition *partition, int64_t row)
{
    if (partition->is_cyclic)
        return (uint32_t)(((uint64_t)row + partition->shift) % partition->count);
    if (__builtin_expect(partition->view != NULL, 0))
        return partition_view_class(partition, row);
    uint32_t class = (uint32_t)packed_get(&partition->codes, (size_t)row);
    return __builtin_expect(class < partition->count, 1) ? class : partition->count - 1;
}

/* The j-th row of a class, 0 <= j < partition_units(). O(1). */
static inline int64_t partition_row(const struct partition *partition, uint32_t class, int64_t j)
{
    if (partition->is_cyclic)
        return (int64_t)(class >= partition->shift ? class - partition->shift
                                                   : class + partition->count - partition->shift) +
               j * partition->count;
    if (__builtin_expect(partition->view != NULL, 0))
        return partition_view_row(partition, class, j);
    size_t start = (size_t)packed_get(&partition->starts, class);
    int64_t row = (int64_t)packed_get(&partition->rows, start + (size_t)j);
    return __builtin_expect((uint64_t)row < (uint64_t)partition->units, 1) ? row
                                                                           : partition->units - 1;
}

/* The same for many j of one class: ret_rows[i] of ranks[i]. */
void partition_gather(const struct partition *partition, uint32_t class, const uint64_t *ranks,
                      size_t count, int64_t *ret_rows);
/* The classes of many rows; of rows first, first + 1, ... */
void partition_gather_classes(const struct partition *partition, const int64_t *rows, size_t count,
                              uint32_t *ret_classes);
void partition_read_classes(const struct partition *partition, int64_t first, size_t count,
                            uint32_t *ret_classes);

/* Which j a row is in its class. O(log N). */
int64_t partition_rank(const struct partition *partition, int64_t row);
/* How many rows before `row` (0 ... N) are of the class. O(log N). */
int64_t partition_rows_before(const struct partition *partition, uint32_t class, int64_t row);
/* Where a class begins when all rows are put in an order of classes (cyclic: that of their first
 * rows), each in frame order. */
int64_t partition_start(const struct partition *partition, uint32_t class);

#endif
