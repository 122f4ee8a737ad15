#include "sampler/id_column.h"

#include <assert.h>
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

/* ---- views ------------------------------------------------------------------------------------
 */
void id_column_of_rows(struct id_column *column, const struct id_column *whole, int64_t begin,
                       int64_t end)
{
    *column = (struct id_column){.count = end - begin,
                                 .first = id_column_get(whole, begin),
                                 .last = id_column_get(whole, end - 1),
                                 .is_consecutive = whole->is_consecutive,
                                 .is_ascending = whole->is_ascending,
                                 .whole = whole,
                                 .begin = begin};
    const struct packed *values = &whole->values;
    if (!whole->is_consecutive)
        column->values =
            (struct packed){.data = (char *)values->data + (size_t)begin * values->width,
                            .count = (size_t)column->count,
                            .width = values->width};
}

void id_column_of_selection(struct id_column *column, const struct id_column *whole,
                            const struct selection *chosen)
{
    *column = (struct id_column){
        .count = chosen->chosen,
        .first = id_column_get(whole, selection_select(chosen, 0)),
        .last = id_column_get(whole, selection_select(chosen, chosen->chosen - 1)),
        .is_ascending = whole->is_ascending,
        .whole = whole,
        .chosen = chosen};
}

int64_t id_column_get_chosen(const struct id_column *column, int64_t row)
{
    assert(column->whole); /* whoever has `chosen` has it */
    return id_column_get(column->whole, selection_select(column->chosen, row));
}

/* ---- questions --------------------------------------------------------------------------------
 */
void id_column_gather(const struct id_column *column, const int64_t *rows, size_t count,
                      int64_t *ret_ids)
{
    if (column->is_consecutive) {
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = column->first + rows[i];
    } else if (column->chosen) {
        selection_select_many(column->chosen, rows, count, ret_ids);
        id_column_gather(column->whole, ret_ids, count, ret_ids);
    } else {
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = (int64_t)packed_get(&column->values, (size_t)rows[i]);
    }
}

void id_column_read(const struct id_column *column, int64_t first, size_t count, int64_t *ret_ids)
{
    if (column->chosen) {
        selection_read(column->chosen, first, count, ret_ids);
        id_column_gather(column->whole, ret_ids, count, ret_ids);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ret_ids[i] = id_column_get(column, first + (int64_t)i);
}

/* The row with the i-th smallest id. */
static int64_t row_at_rank(const struct id_column *column, int64_t i)
{
    if (column->is_ascending)
        return i;
    int64_t row = (int64_t)packed_get(&column->by_id, (size_t)i);
    return __builtin_expect((uint64_t)row < (uint64_t)column->count, 1) ? row : column->count - 1;
}

/* The view's row of a row of the whole, or -1. */
static int64_t row_in_view(const struct id_column *column, int64_t row)
{
    if (column->chosen)
        return row >= 0 && selection_has(column->chosen, row) ? selection_rank(column->chosen, row)
                                                              : -1;
    return row >= column->begin && row - column->begin < column->count ? row - column->begin : -1;
}

int64_t id_column_find(const struct id_column *column, int64_t id)
{
    if (column->whole)
        return row_in_view(column, id_column_find(column->whole, id));
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

/* The first row of the view in the order of ids: from the smallest on (`step` 1) or from the
 * largest (-1). */
static int64_t outermost_in_view(const struct id_column *column, const struct id_column *root,
                                 int64_t step)
{
    int64_t rank = step > 0 ? 0 : root->count - 1;
    for (; rank >= 0 && rank < root->count; rank += step) {
        int64_t id = id_column_get(root, row_at_rank(root, rank));
        if (id_column_find(column, id) >= 0)
            return id;
    }
    return column->first; /* only with a damaged file's rows */
}

static int64_t outermost(const struct id_column *column, int64_t step)
{
    const struct id_column *root = column;
    assert(root);
    while (root->whole)
        root = root->whole;
    if (root != column && !column->is_ascending)
        return outermost_in_view(column, root, step);
    if (column->is_ascending)
        return step > 0 ? column->first : column->last;
    return id_column_get(column, row_at_rank(column, step > 0 ? 0 : column->count - 1));
}

int64_t id_column_smallest(const struct id_column *column)
{
    return outermost(column, 1);
}

int64_t id_column_largest(const struct id_column *column)
{
    return outermost(column, -1);
}
