/*
 * The ids of a frame: row -> id and back. Three forms:
 *
 *   consecutive  id = first + row: nothing is stored
 *   ascending    values[N]; found by halves
 *   any          values[N], and by_id[N]: rows in the order of their ids, found by halves
 *
 * Grows by id_column_add(), then id_column_finish() sorts and refuses ids that come twice.
 * Immutable afterwards; any thread. Memory of a damaged file gives wrong ids, never a crash.
 *
 * Dimensions: N units.
 */
#ifndef SAMPLER_ID_COLUMN_H
#define SAMPLER_ID_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/packed.h"

struct id_column {
    int64_t count;       /* N */
    int64_t first;       /* the id of row 0 */
    int64_t last;        /* the id of row N - 1 */
    bool is_consecutive; /* zeroed column: see id_column_init() */
    bool is_ascending;
    struct packed values; /* [N], unless consecutive */
    struct packed by_id;  /* [N], unless ascending */
};

/* An empty column to add to. */
void id_column_init(struct id_column *column);
void id_column_release(struct id_column *column);

/* Ids >= 0 (checked by the caller). */
enum error id_column_add(struct id_column *column, const int64_t *ids, size_t count) MUST_CHECK;
/* ERROR_INPUT when an id comes twice, naming it and both rows (counted from 1). */
enum error id_column_finish(struct id_column *column) MUST_CHECK;

/* Rows [begin, end) of `whole`, finished. */
enum error id_column_slice(struct id_column *column, const struct id_column *whole, int64_t begin,
                           int64_t end) MUST_CHECK;

static inline int64_t id_column_get(const struct id_column *column, int64_t row)
{
    return column->is_consecutive ? column->first + row
                                  : (int64_t)packed_get(&column->values, (size_t)row);
}

/* ids[i] of rows[i]; the same array may be both. */
void id_column_gather(const struct id_column *column, const int64_t *rows, size_t count,
                      int64_t *ret_ids);

/* The row of an id, or -1. O(log N). */
int64_t id_column_find(const struct id_column *column, int64_t id);

/* The smallest and the largest id. O(1). */
int64_t id_column_smallest(const struct id_column *column);
int64_t id_column_largest(const struct id_column *column);

#endif
