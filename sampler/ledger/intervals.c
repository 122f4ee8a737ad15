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

/* How many intervals end before `number`: they neither contain nor touch it. */
static size_t count_before(const struct intervals *intervals, int64_t number)
{
    size_t low = 0;
    size_t high = intervals->count;
    if (high == 0)
        return 0;
    const struct interval *items = intervals->items + intervals->front;
    if (items[high - 1].end < number)
        return high; /* the usual case: seqs and positions are counted up */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (items[middle].end < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* [first, last): the intervals that [begin, end) overlaps or touches. They are merged into one; if
 * there are none, inserts it. */
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

/* Intervals that no number can touch stay; the others are moved up by `count`, and merged with the
 * numbers into the room below them, which is never less than the remainder of both. */
void intervals_add_numbers(struct intervals *intervals, const int64_t *numbers, size_t count)
{
    if (count == 0)
        return;
    size_t first = count_before(intervals, numbers[0]);
    size_t left = intervals->count - first;
    struct interval *end = intervals->items + intervals->front + first;
    struct interval *const begin = end;
    const struct interval *rest = end + count;
    memmove(end + count, end, left * sizeof(*end));
    while (count > 0 || (left > 0 && end > begin && end[-1].end >= rest->begin)) {
        bool is_number = count > 0 && (left == 0 || numbers[0] < rest->begin);
        struct interval next = is_number ? (struct interval){numbers[0], numbers[0] + 1} : *rest;
        numbers += is_number;
        count -= is_number;
        rest += !is_number;
        left -= !is_number;
        intervals->size -= is_number ? 0 : next.end - next.begin;
        if (end == begin || end[-1].end < next.begin)
            *end++ = (struct interval){next.begin, next.begin};
        if (end[-1].end < next.end) {
            intervals->size += next.end - end[-1].end;
            end[-1].end = next.end;
        }
    }
    memmove(end, rest, left * sizeof(*end));
    intervals->count = first + (size_t)(end - begin) + left;
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
