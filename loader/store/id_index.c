/* SPDX-License-Identifier: MIT */
#include "loader/store/id_index.h"

#include <stdbool.h>
#include <stdlib.h>

#define AHEAD 16 /* insertions ahead whose slots are prefetched */

static bool is_ascending(const int64_t *ids, int64_t rows)
{
    for (int64_t i = 1; i < rows; i++) {
        if (ids[i] <= ids[i - 1])
            return false;
    }
    return true;
}

static enum error fill_table(struct id_index *index, int64_t ret_twice[2])
{
    if (index->rows > (int64_t)UINT32_MAX - 1)
        return error_set(ERROR_MEMORY,
                         "%lld rows have ids that do not ascend; at most 4294967294 can be indexed",
                         (long long)index->rows);
    /* Two thirds of the slots are used, not half: nothing is ever added, and memory matters. */
    size_t rows = (size_t)index->rows;
    enum error error =
        hash_table_reserve(&index->table, rows - rows / 4, NULL, NULL, "an index of ids");
    for (size_t row = 0; row < rows && !error; row++) {
        if (row + AHEAD < rows)
            hash_table_prefetch(&index->table, hash_table_mix(index->ids[row + AHEAD]));
        uint32_t other = hash_table_find_id(&index->table, index->ids, index->ids[row]);
        if (other != HASH_TABLE_NONE) {
            ret_twice[0] = other;
            ret_twice[1] = (int64_t)row;
            return ERROR_CONFLICT;
        }
        hash_table_put(&index->table, hash_table_mix(index->ids[row]), (uint32_t)row);
    }
    return error;
}

enum error id_index_init(struct id_index *index, int64_t *ids, int64_t rows, int64_t ret_twice[2])
{
    *index = (struct id_index){.rows = rows, .ids = ids};
    if (!ids || rows == 0)
        return OK;
    index->first = ids[0];
    bool ascending = is_ascending(ids, rows);
    if (ascending && ids[rows - 1] - ids[0] == rows - 1) {
        free(ids);
        index->ids = NULL;
        return OK;
    }
    enum error error = OK;
    if (!ascending || rows <= (int64_t)UINT32_MAX - 1)
        error = fill_table(index, ret_twice);
    if (error) {
        index->ids = NULL;
        id_index_release(index);
    }
    return error;
}

void id_index_release(struct id_index *index)
{
    free(index->ids);
    hash_table_release(&index->table);
    *index = (struct id_index){.rows = 0};
}

static int64_t search_halves(const struct id_index *index, int64_t id)
{
    int64_t low = 0;
    int64_t high = index->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (index->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->rows && index->ids[low] == id ? low : -1;
}

int64_t id_index_row(const struct id_index *index, int64_t id)
{
    if (!index->ids)
        return id >= index->first && id - index->first < index->rows ? id - index->first : -1;
    if (!index->table.slots)
        return search_halves(index, id);
    uint32_t row = hash_table_find_id(&index->table, index->ids, id);
    return row == HASH_TABLE_NONE ? -1 : (int64_t)row;
}

int64_t id_index_id(const struct id_index *index, int64_t row)
{
    return index->ids ? index->ids[row] : index->first + row;
}

void id_index_lengths(const struct id_index *index, const uint32_t *row_lengths, const int64_t *ids,
                      size_t count, int64_t *lengths)
{
    for (size_t i = 0; i < count; i++) {
        int64_t row = id_index_row(index, ids[i]);
        lengths[i] = row < 0 ? 0 : row_lengths[row];
    }
}
