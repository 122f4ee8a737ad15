#include "sampler/id_column.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

static const char column_memory[] = "the units' ids";

void id_column_init(struct id_column *column)
{
    *column =
        (struct id_column){.is_consecutive = true, .is_ascending = true, .values = {.width = 4}};
}

void id_column_release(struct id_column *column)
{
    packed_release(&column->values);
    packed_release(&column->by_id);
}

/* ---- growing ----------------------------------------------------------------------------------
 */
static enum error store_what_came_so_far(struct id_column *column)
{
    enum error error = OK;
    for (int64_t row = 0; row < column->count && !error; row++)
        error = packed_add(&column->values, (uint64_t)(column->first + row), column_memory);
    column->is_consecutive = false;
    return error;
}

static enum error add(struct id_column *column, int64_t id)
{
    enum error error = OK;
    if (column->count == 0)
        column->first = column->last = id - 1;
    if (column->is_consecutive && id - 1 != column->last)
        error = store_what_came_so_far(column);
    if (column->count == 0)
        column->first = id;
    if (!error && !column->is_consecutive)
        error = packed_add(&column->values, (uint64_t)id, column_memory);
    if (error)
        return error;
    column->is_ascending = column->is_ascending && (column->count == 0 || id > column->last);
    column->last = id;
    column->count++;
    return OK;
}

enum error id_column_add(struct id_column *column, const int64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum error error = add(column, ids[i]);
        if (error)
            return error;
    }
    return OK;
}

/* ---- sorting: radix sort of row numbers by id, the lowest digit first -------------------------
 */
/* Sorts `from` into `to` by one digit; false when all rows have the same one and nothing was done.
 */
static bool sort_digit(const struct packed *values, unsigned shift, const struct packed *from,
                       struct packed *to, size_t next[DIGITS])
{
    for (size_t digit = 0; digit < DIGITS; digit++)
        next[digit] = 0;
    for (size_t i = 0; i < values->count; i++)
        next[packed_get(values, i) >> shift & (DIGITS - 1)]++;
    if (next[packed_get(values, 0) >> shift & (DIGITS - 1)] == values->count)
        return false;
    size_t sum = 0;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t units = next[digit];
        next[digit] = sum;
        sum += units;
    }
    for (size_t i = 0; i < from->count; i++) {
        uint64_t row = packed_get(from, i);
        size_t digit = packed_get(values, (size_t)row) >> shift & (DIGITS - 1);
        packed_set(to, next[digit]++, row);
    }
    return true;
}

static enum error sort_by_id(struct id_column *column)
{
    size_t units = (size_t)column->count;
    struct packed sorted = {.width = 1}, other = {.width = 1};
    size_t *next = array_new(DIGITS, sizeof(*next), "sorting ids");
    enum error error = ERROR_MEMORY;
    if (!next)
        goto out;
    error = packed_init(&sorted, units, units - 1, column_memory);
    if (!error)
        error = packed_init(&other, units, units - 1, "sorting ids");
    if (error)
        goto out;
    for (size_t row = 0; row < units; row++)
        packed_set(&sorted, row, row);
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (sort_digit(&column->values, shift, &sorted, &other, next)) {
            struct packed swapped = sorted;
            sorted = other;
            other = swapped;
        }
    }
    column->by_id = sorted;
    sorted = (struct packed){.width = 1};
out:
    packed_release(&sorted);
    packed_release(&other);
    free(next);
    return error;
}

static enum error refuse_twice(const struct id_column *column)
{
    for (size_t i = 1; i < column->by_id.count; i++) {
        uint64_t before = packed_get(&column->by_id, i - 1), row = packed_get(&column->by_id, i);
        uint64_t id = packed_get(&column->values, (size_t)row);
        if (id == packed_get(&column->values, (size_t)before))
            return error_set(ERROR_INPUT,
                             "id %" PRIu64 " comes twice: in row %" PRIu64 " and in row %" PRIu64
                             " of the store (counted from 1, a header not counted)",
                             id, before + 1, row + 1);
    }
    return OK;
}

enum error id_column_finish(struct id_column *column)
{
    if (column->is_consecutive)
        return OK;
    packed_trim(&column->values);
    if (column->is_ascending)
        return OK;
    enum error error = sort_by_id(column);
    return error ? error : refuse_twice(column);
}

enum error id_column_slice(struct id_column *column, const struct id_column *whole, int64_t begin,
                           int64_t end)
{
    id_column_init(column);
    if (whole->is_consecutive) {
        column->count = end - begin;
        column->first = whole->first + begin;
        column->last = column->first + column->count - 1;
        return OK;
    }
    enum error error = OK;
    for (int64_t row = begin; row < end && !error; row++)
        error = add(column, id_column_get(whole, row));
    if (!error)
        error = id_column_finish(column);
    if (error)
        id_column_release(column);
    return error;
}

/* ---- questions --------------------------------------------------------------------------------
 */
void id_column_gather(const struct id_column *column, const int64_t *rows, size_t count,
                      int64_t *ret_ids)
{
    if (column->is_consecutive) {
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = column->first + rows[i];
    } else {
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = (int64_t)packed_get(&column->values, (size_t)rows[i]);
    }
}

/* The row with the i-th smallest id. */
static int64_t row_at_rank(const struct id_column *column, int64_t i)
{
    if (column->is_ascending)
        return i;
    int64_t row = (int64_t)packed_get(&column->by_id, (size_t)i);
    return __builtin_expect((uint64_t)row < (uint64_t)column->count, 1) ? row : column->count - 1;
}

int64_t id_column_find(const struct id_column *column, int64_t id)
{
    if (column->is_consecutive)
        return id >= column->first && id <= column->last ? id - column->first : -1;
    int64_t low = 0, high = column->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (id_column_get(column, row_at_rank(column, middle)) < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == column->count)
        return -1;
    int64_t row = row_at_rank(column, low);
    return id_column_get(column, row) == id ? row : -1;
}

int64_t id_column_smallest(const struct id_column *column)
{
    return id_column_get(column, row_at_rank(column, 0));
}

int64_t id_column_largest(const struct id_column *column)
{
    return id_column_get(column, row_at_rank(column, column->count - 1));
}
