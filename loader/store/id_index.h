/* SPDX-License-Identifier: MIT */
/*
 * id -> row. Consecutive ids cost nothing (row = id - first); others are kept (8 bytes per row)
 * with a hash table of row numbers (6 to 11 bytes per row). Immutable once built: any thread.
 */
#ifndef LOADER_STORE_ID_INDEX_H
#define LOADER_STORE_ID_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"

struct id_index {
    int64_t rows;
    int64_t first;           /* consecutive: the id of row 0 */
    int64_t *ids;            /* owned; [rows]; NULL if consecutive */
    struct hash_table table; /* rows by id; no slots: consecutive, or binary search */
};

/* Takes `ids` over on success (allocated by array_new or array_grow); NULL: row numbers from 0. A
 * duplicate id is ERROR_CONFLICT without a message: the caller names the rows ret_twice[0] < [1].
 * Beyond 2^32 - 2 rows, ascending ids use binary search, and others are ERROR_MEMORY. */
enum error id_index_init(struct id_index *index, int64_t *ids, int64_t rows,
                         int64_t ret_twice[2]) MUST_CHECK;
void id_index_release(struct id_index *index);

/* -1: no row has this id. */
int64_t id_index_row(const struct id_index *index, int64_t id);
int64_t id_index_id(const struct id_index *index, int64_t row);
/* lengths[count] of the rows with these ids, from row_lengths[rows] by row number; 0: no such
 * row. */
void id_index_lengths(const struct id_index *index, const uint32_t *row_lengths, const int64_t *ids,
                      size_t count, int64_t *lengths);

#endif
