/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void intervals_release(struct intervals *intervals)
{
    free(intervals->items);
    *intervals = (struct intervals){0};
}

void intervals_clear(struct intervals *intervals)
{
    intervals->front = 0;
    intervals->count = 0;
    intervals->size = 0;
}

enum error intervals_reserve(struct intervals *intervals, size_t more)
{
    size_t end = intervals->front + intervals->count;
    if (intervals->capacity - end >= more)
        return OK;
    if (intervals->front > 0 && intervals->front >= intervals->count + more) {
        memmove(intervals->items, intervals->items + intervals->front,
                intervals->count * sizeof(*intervals->items));
        intervals->front = 0;
        return OK;
    }
    void *items = intervals->items;
    enum error error = array_grow(&items, &intervals->capacity, end + more,
                                  sizeof(*intervals->items), "sets of numbers");
    intervals->items = items;
    return error;
}

/* How many intervals end before `number`: they neither hold nor touch it. */
static size_t count_before(const struct intervals *intervals, int64_t number)
{
    size_t low = 0;
    size_t high = intervals->count;
    if (high == 0)
        return 0;
    const struct interval *items = intervals->items + intervals->front;
    if (items[high - 1].end < number)
        return high; /* mostly: seqs and positions are counted up */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (items[middle].end < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* [first, last): the intervals that [begin, end) overlaps or touches. They become one; where there
 * are none it is put in between. */
void intervals_add(struct intervals *intervals, int64_t begin, int64_t end)
{
    size_t first = count_before(intervals, begin);
    struct interval *items = intervals->items + intervals->front;
    size_t last = first;
    while (last < intervals->count && items[last].begin <= end) {
        intervals->size -= items[last].end - items[last].begin;
        begin = items[last].begin < begin ? items[last].begin : begin;
        end = items[last].end > end ? items[last].end : end;
        last++;
    }
    memmove(items + first + 1, items + last, (intervals->count - last) * sizeof(*items));
    items[first] = (struct interval){begin, end};
    intervals->count += 1 - (last - first);
    intervals->size += end - begin;
}

size_t intervals_find(const struct intervals *intervals, int64_t number)
{
    return number == INT64_MAX ? intervals->count : count_before(intervals, number + 1);
}

bool intervals_has(const struct intervals *intervals, int64_t number)
{
    size_t first = intervals_find(intervals, number);
    return first < intervals->count && intervals_at(intervals, first)->begin <= number;
}

const struct interval *intervals_at(const struct intervals *intervals, size_t i)
{
    return &intervals->items[intervals->front + i];
}

void intervals_cut_front(struct intervals *intervals, int64_t number)
{
    struct interval *first = &intervals->items[intervals->front];
    intervals->size -= number - first->begin;
    first->begin = number;
    if (first->begin < first->end)
        return;
    intervals->front++;
    intervals->count--;
    if (intervals->count == 0)
        intervals->front = 0;
}

void intervals_cut_back(struct intervals *intervals, int64_t number)
{
    size_t kept = intervals_find(intervals, number);
    for (size_t i = kept; i < intervals->count; i++)
        intervals->size -= intervals_at(intervals, i)->end - intervals_at(intervals, i)->begin;
    if (kept < intervals->count && intervals_at(intervals, kept)->begin < number) {
        intervals->size += number - intervals_at(intervals, kept)->begin;
        intervals->items[intervals->front + kept++].end = number;
    }
    intervals->count = kept;
    if (kept == 0)
        intervals->front = 0;
}
