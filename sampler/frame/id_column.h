/* SPDX-License-Identifier: MIT */
/*
 * The ids of a frame: row -> id and back. Four forms:
 *
 *   consecutive  id = first + row: nothing is stored
 *   ascending    values[N]; found by halves
 *   any          values[N], and by_id[N]: rows in the order of their ids, found by halves
 *   view         rows of another column: plain ones borrow its values, chosen ones are selected
 *
 * Filled by the constructors of frames (frame.c, frame_open.c, frame_view.c). Immutable afterwards;
 * any thread. A damaged file gives wrong ids, never a crash.
 *
 * Dimensions: N units.
 */
#ifndef SAMPLER_FRAME_ID_COLUMN_H
#define SAMPLER_FRAME_ID_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/packed.h"
#include "sampler/frame/rank_bitmap.h"

struct id_column {
    int64_t count; /* N */
    int64_t first; /* the id of row 0 */
    int64_t last;  /* the id of row N - 1 */
    bool is_consecutive;
    bool is_ascending;
    struct packed values; /* [N], unless consecutive */
    struct packed by_id;  /* [N], unless ascending */
    /* for a view */
    const struct id_column *whole;    /* borrowed; NULL: not a view */
    const struct rank_bitmap *chosen; /* borrowed: rows of `whole`; NULL: all from `begin` on */
    int64_t begin;
};

void id_column_release(struct id_column *column);

/* Rows [begin, end) of `whole`, or those in `chosen` (at least one); the arguments must outlive the
 * view. No memory per unit. */
void id_column_of_rows(struct id_column *column, const struct id_column *whole, int64_t begin,
                       int64_t end);
void id_column_of_bitmap(struct id_column *column, const struct id_column *whole,
                         const struct rank_bitmap *chosen);

int64_t id_column_get_chosen(const struct id_column *column, int64_t row);

/* For stored ids. A damaged file gives wrong ids, but no negative ones. */
static inline int64_t id_column_value(const struct id_column *column, int64_t row)
{
    return (int64_t)(packed_get(&column->values, (size_t)row) & INT64_MAX);
}

static inline int64_t id_column_get(const struct id_column *column, int64_t row)
{
    if (column->is_consecutive)
        return column->first + row;
    if (__builtin_expect(column->chosen != NULL, 0))
        return id_column_get_chosen(column, row);
    return id_column_value(column, row);
}

/* The ids of rows[i]; input and output may be the same array. */
void id_column_gather(const struct id_column *column, const int64_t *rows, size_t count,
                      int64_t *ret_ids);
/* The ids of rows first, first + 1, ... */
void id_column_read(const struct id_column *column, int64_t first, size_t count, int64_t *ret_ids);

/* The row of an id, or -1. O(log N). */
int64_t id_column_find(const struct id_column *column, int64_t id);

/* The smallest and the largest id. O(1); O(N) for a view whose ids do not ascend. */
int64_t id_column_smallest(const struct id_column *column);
int64_t id_column_largest(const struct id_column *column);

#endif
