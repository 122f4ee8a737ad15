/* SPDX-License-Identifier: MIT */
#include "sampler/frame/id_column.h"

#include <assert.h>

void id_column_release(struct id_column *column)
{
    packed_release(&column->values);
    packed_release(&column->by_id);
}

/* ---- views -------------------------------------------------------------- */

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

void id_column_of_bitmap(struct id_column *column, const struct id_column *whole,
                         const struct rank_bitmap *chosen)
{
    *column = (struct id_column){
        .count = chosen->ones,
        .first = id_column_get(whole, rank_bitmap_select(chosen, 0)),
        .last = id_column_get(whole, rank_bitmap_select(chosen, chosen->ones - 1)),
        .is_ascending = whole->is_ascending,
        .whole = whole,
        .chosen = chosen};
}

int64_t id_column_get_chosen(const struct id_column *column, int64_t row)
{
    assert(column->whole); /* a column with `chosen` is a view */
    return id_column_get(column->whole, rank_bitmap_select(column->chosen, row));
}

/* ---- questions ---------------------------------------------------------- */

void id_column_gather(const struct id_column *column, const int64_t *rows, size_t count,
                      int64_t *ret_ids)
{
    if (column->is_consecutive) {
        bool are_there = rows == ret_ids && column->first == 0;
        for (size_t i = 0; i < count && !are_there; i++)
            ret_ids[i] = column->first + rows[i];
    } else if (column->chosen) {
        rank_bitmap_select_many(column->chosen, rows, count, ret_ids);
        id_column_gather(column->whole, ret_ids, count, ret_ids);
    } else {
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = id_column_value(column, rows[i]);
    }
}

void id_column_read(const struct id_column *column, int64_t first, size_t count, int64_t *ret_ids)
{
    if (column->chosen) {
        rank_bitmap_read(column->chosen, first, count, ret_ids);
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

/* The view's row for a row of the whole, or -1. */
static int64_t row_in_view(const struct id_column *column, int64_t row)
{
    if (column->chosen)
        return row >= 0 && rank_bitmap_has(column->chosen, row)
                   ? rank_bitmap_rank(column->chosen, row)
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

/* The first row of the view in order of ids: from the smallest up (`step` 1) or the largest down
 * (-1). */
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
