/* SPDX-License-Identifier: MIT */
/*
 * Spans of `skipped` are ascending and disjoint, as everywhere in intervals.h. A draw adds behind
 * the last one: O(1). A seek is a merge of three such sequences that are disjoint from each other,
 * because a position has one state (ledger.h): skipped spans, gaps, leases by position; then [old
 * position, new position) where it goes forward. O(spans), into `skipped_next`, whose room was
 * reserved before the seek was in the journal; everything is added behind the last, so each
 * addition is O(1).
 */
#include "sampler/ledger/ledger_skipped.h"

enum error ledger_skipped_reserve(struct ledger *ledger)
{
    return intervals_reserve(&ledger->skipped, 1);
}

static void forget_lowest(struct intervals *skipped)
{
    while (skipped->count > LEDGER_SKIPPED_LIMIT)
        intervals_cut_front(skipped, intervals_at(skipped, 0)->end);
}

void ledger_skipped_add(struct ledger *ledger, int64_t begin, int64_t end)
{
    intervals_add(&ledger->skipped, begin, end);
    forget_lowest(&ledger->skipped);
}

/* ---- a seek ------------------------------------------------------------- */

enum error ledger_skipped_reserve_seek(struct ledger *ledger)
{
    return intervals_reserve(&ledger->skipped_next,
                             ledger->skipped.count + ledger->gaps.count + ledger->leases.count + 1);
}

/* How far the merge has come in two of the three; lease_set_each() drives it with the third. */
struct merging {
    struct ledger *ledger;
    int64_t position; /* positions below it count */
    size_t skipped, gaps;
};

static void add_below(struct merging *merging, int64_t begin, int64_t end)
{
    if (end > merging->position)
        end = merging->position;
    if (begin < end)
        intervals_add(&merging->ledger->skipped_next, begin, end);
}

/* Those of `set` that begin before `limit`. */
static void add_before(struct merging *merging, const struct intervals *set, size_t *at,
                       int64_t limit)
{
    for (; *at < set->count && intervals_at(set, *at)->begin < limit; ++*at)
        add_below(merging, intervals_at(set, *at)->begin, intervals_at(set, *at)->end);
}

/* Skipped spans and gaps, in turns, up to `limit`. */
static void add_both(struct merging *merging, int64_t limit)
{
    const struct intervals *skipped = &merging->ledger->skipped;
    const struct intervals *gaps = &merging->ledger->gaps;
    while (merging->gaps < gaps->count && intervals_at(gaps, merging->gaps)->begin < limit) {
        int64_t begin = intervals_at(gaps, merging->gaps)->begin;
        add_before(merging, skipped, &merging->skipped, begin);
        add_before(merging, gaps, &merging->gaps, begin + 1);
    }
    add_before(merging, skipped, &merging->skipped, limit);
}

static void add_lease(void *context, const struct lease *lease)
{
    struct merging *merging = context;
    add_both(merging, lease->first);
    add_below(merging, lease->first, lease->first + lease->positions);
}

void ledger_skipped_seek(struct ledger *ledger, int64_t position)
{
    struct merging merging = {.ledger = ledger, .position = position};
    lease_set_each(&ledger->leases, add_lease, &merging);
    add_both(&merging, position);
    add_below(&merging, ledger->position, position);
    intervals_release(&ledger->skipped);
    ledger->skipped = ledger->skipped_next;
    ledger->skipped_next = (struct intervals){0};
    forget_lowest(&ledger->skipped);
}
