/* SPDX-License-Identifier: MIT */
/*
 * A seek merges three sequences of spans that ascend and are disjoint, also from each other: a
 * position has one state (ledger.h). They are skipped spans, gaps, and leases by position; then
 * [old position, new position) if it goes forward. All are appended after the last span: O(1) each.
 */
#include "sampler/ledger/ledger_past.h"

#include "sampler/ledger/ledger_skipped.h"

void ledger_past_init(struct ledger_past *past)
{
    *past = (struct ledger_past){.position = 0};
    lease_set_init(&past->leases);
}

void ledger_past_release(struct ledger_past *past)
{
    intervals_release(&past->skipped);
    intervals_release(&past->gaps);
    intervals_release(&past->next);
    worker_table_release(&past->workers);
    lease_set_release(&past->leases);
}

enum error ledger_past_reserve(struct ledger *ledger)
{
    return intervals_reserve(&ledger->room, ledger->skipped.count + ledger->gaps.count +
                                                ledger->leases.count + 1 + LEDGER_PAST_SINCE);
}

void ledger_past_take(struct ledger_past *past, struct ledger *ledger)
{
    past->skipped = ledger->skipped;
    past->gaps = ledger->gaps;
    past->leases = ledger->leases;
    past->position = ledger->position;
    ledger->skipped = ledger->gaps = (struct intervals){0};
    lease_set_init(&ledger->leases);
    lease_history_clear(&ledger->history);
    ledger->jumps++;
}

/* ---- the merge ---------------------------------------------------------- */

/* Progress in two of the three; lease_set_each() drives it with the third. */
struct merging {
    const struct ledger_past *past;
    struct intervals *into;
    size_t skipped, gaps;
};

static void add_below(const struct merging *merging, int64_t begin, int64_t end)
{
    if (end > merging->past->sought)
        end = merging->past->sought;
    if (begin < end)
        intervals_add(merging->into, begin, end);
}

/* Spans of `set` that begin before `limit`. */
static void add_before(const struct merging *merging, const struct intervals *set, size_t *at,
                       int64_t limit)
{
    for (; *at < set->count && intervals_at(set, *at)->begin < limit; ++*at)
        add_below(merging, intervals_at(set, *at)->begin, intervals_at(set, *at)->end);
}

/* Skipped spans and gaps, alternately, up to `limit`. */
static void add_both(struct merging *merging, int64_t limit)
{
    const struct intervals *skipped = &merging->past->skipped;
    const struct intervals *gaps = &merging->past->gaps;
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

size_t ledger_past_spans(const struct ledger_past *past)
{
    return past->skipped.count + past->gaps.count + past->leases.count + 1;
}

void ledger_past_merge(const struct ledger_past *past, struct intervals *skipped)
{
    struct merging merging = {.past = past, .into = skipped};
    lease_set_each(&past->leases, add_lease, &merging);
    add_both(&merging, past->sought);
    add_below(&merging, past->position, past->sought);
    ledger_skipped_trim(skipped);
}

void ledger_past_settle(struct ledger_past *past, struct ledger *ledger)
{
    struct intervals since = ledger->skipped;
    ledger->skipped = past->next;
    past->next = since; /* to be released */
    for (size_t i = 0; i < since.count; i++)
        ledger_skipped_add(ledger, intervals_at(&since, i)->begin, intervals_at(&since, i)->end);
    ledger->past = NULL;
}

bool ledger_past_skips(const struct ledger_past *past, int64_t position)
{
    return position < past->sought &&
           (position >= past->position || intervals_has(&past->skipped, position) ||
            intervals_has(&past->gaps, position) ||
            lease_set_at(&past->leases, position) != LEASE_NONE);
}
