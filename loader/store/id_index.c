#include "loader/store/id_index.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"

#define AHEAD 16 /* insertions whose slot is fetched from memory in advance */

/* Fibonacci hashing; the high bits are the mixed ones. */
static size_t slot_of(const struct id_index *index, int64_t id)
{
    uint64_t mixed = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed ^ (mixed >> 32)) & index->slot_mask;
}

static bool is_ascending(const int64_t *ids, int64_t rows)
{
    for (int64_t i = 1; i < rows; i++) {
        if (ids[i] <= ids[i - 1])
            return false;
    }
    return true;
}

static enum error insert(struct id_index *index, int64_t row, int64_t ret_twice[2])
{
    size_t slot = slot_of(index, index->ids[row]);
    while (index->slots[slot] != 0) {
        int64_t other = (int64_t)index->slots[slot] - 1;
        if (index->ids[other] == index->ids[row]) {
            ret_twice[0] = other;
            ret_twice[1] = row;
            return ERROR_CONFLICT;
        }
        slot = (slot + 1) & index->slot_mask;
    }
    index->slots[slot] = (uint32_t)(row + 1);
    return OK;
}

static enum error build_slots(struct id_index *index, int64_t ret_twice[2])
{
    if (index->rows > (int64_t)UINT32_MAX - 1)
        return error_set(ERROR_MEMORY,
                         "%lld rows have ids that do not ascend; at most 4294967294 can be indexed",
                         (long long)index->rows);
    size_t count = 16;
    while (count < (size_t)index->rows + (size_t)index->rows / 2)
        count *= 2;
    index->slots = array_new(count, sizeof(*index->slots), "an index of ids");
    if (!index->slots)
        return ERROR_MEMORY;
    index->slot_mask = count - 1;
    enum error error = OK;
    for (int64_t row = 0; row < index->rows && !error; row++) {
        if (row + AHEAD < index->rows)
            __builtin_prefetch(&index->slots[slot_of(index, index->ids[row + AHEAD])], 1);
        error = insert(index, row, ret_twice);
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
        error = build_slots(index, ret_twice);
    if (error) {
        index->ids = NULL;
        id_index_release(index);
    }
    return error;
}

void id_index_release(struct id_index *index)
{
    free(index->ids);
    free(index->slots);
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
    if (!index->ids) {
        int64_t row = id - index->first;
        return id >= index->first && row < index->rows ? row : -1;
    }
    if (!index->slots)
        return search_halves(index, id);
    for (size_t slot = slot_of(index, id); index->slots[slot] != 0;
         slot = (slot + 1) & index->slot_mask) {
        int64_t row = (int64_t)index->slots[slot] - 1;
        if (index->ids[row] == id)
            return row;
    }
    return -1;
}

int64_t id_index_id(const struct id_index *index, int64_t row)
{
    return index->ids ? index->ids[row] : index->first + row;
}
