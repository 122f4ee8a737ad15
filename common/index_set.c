/* SPDX-License-Identifier: MIT */
#include "common/index_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void index_set_release(struct index_set *set)
{
    free(set->ranges);
    *set = (struct index_set){.count = 0};
}

void index_set_clear(struct index_set *set)
{
    set->count = 0;
}

/* The first range that ends after `index`, or count. */
static size_t find(const struct index_set *set, int64_t index)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].end > index)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Room for `count` ranges. */
static enum error reserve(struct index_set *set, size_t count)
{
    void *ranges = set->ranges;
    if (count > INDEX_SET_LIMIT)
        return error_set(ERROR_MEMORY, "a set of batches falls into more than %d ranges",
                         INDEX_SET_LIMIT);
    enum error error =
        array_grow(&ranges, &set->capacity, count, sizeof(*set->ranges), "a set of batches");
    set->ranges = ranges;
    return error;
}

/* Replaces ranges [begin, end) by the `count` ranges at `with`. */
static enum error replace(struct index_set *set, size_t begin, size_t end,
                          const struct index_range *with, size_t count)
{
    enum error error = reserve(set, set->count - (end - begin) + count);
    if (error || (begin == end && count == 0))
        return error;
    memmove(set->ranges + begin + count, set->ranges + end,
            (set->count - end) * sizeof(*set->ranges));
    memcpy(set->ranges + begin, with, count * sizeof(*with));
    set->count = set->count - (end - begin) + count;
    return OK;
}

enum error index_set_add(struct index_set *set, struct index_range range)
{
    if (range.first >= range.end)
        return OK;
    size_t begin = range.first > 0 ? find(set, range.first - 1) : 0; /* one that touches, too */
    size_t end = begin;
    for (; end < set->count && set->ranges[end].first <= range.end; end++) {
        if (set->ranges[end].first < range.first)
            range.first = set->ranges[end].first;
        if (set->ranges[end].end > range.end)
            range.end = set->ranges[end].end;
    }
    return replace(set, begin, end, &range, 1);
}

enum error index_set_remove(struct index_set *set, struct index_range range)
{
    struct index_range left[2];
    size_t count = 0, begin = find(set, range.first), end = begin;
    if (range.first >= range.end)
        return OK;
    for (; end < set->count && set->ranges[end].first < range.end; end++) {
        struct index_range old = set->ranges[end];
        if (old.first < range.first)
            left[count++] = (struct index_range){old.first, range.first};
        if (old.end > range.end)
            left[count++] = (struct index_range){range.end, old.end};
    }
    return replace(set, begin, end, left, count);
}

enum error index_set_copy(struct index_set *set, const struct index_set *from)
{
    enum error error = reserve(set, from->count);
    if (error)
        return error;
    if (from->count > 0)
        memcpy(set->ranges, from->ranges, from->count * sizeof(*set->ranges));
    set->count = from->count;
    return OK;
}

bool index_set_has(const struct index_set *set, int64_t index)
{
    size_t at = find(set, index);
    return at < set->count && set->ranges[at].first <= index;
}

int64_t index_set_end(const struct index_set *set)
{
    return set->count > 0 ? set->ranges[set->count - 1].end : 0;
}

int64_t index_set_size(const struct index_set *set)
{
    int64_t size = 0;
    for (size_t i = 0; i < set->count; i++)
        size += set->ranges[i].end - set->ranges[i].first;
    return size;
}

struct index_range index_set_gap(const struct index_set *set, int64_t from, int64_t end)
{
    size_t at = find(set, from);
    if (at < set->count && set->ranges[at].first <= from)
        from = set->ranges[at++].end;
    if (at < set->count && set->ranges[at].first < end)
        end = set->ranges[at].first;
    return (struct index_range){from, end};
}

bool index_set_within(const struct index_set *set, const struct index_set *other)
{
    for (size_t i = 0; i < set->count; i++) {
        struct index_range gap = index_set_gap(other, set->ranges[i].first, set->ranges[i].end);
        if (gap.first < gap.end)
            return false;
    }
    return true;
}
