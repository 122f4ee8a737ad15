/* SPDX-License-Identifier: MIT */
/*
 * Spans of `skipped` are ascending and disjoint, as everywhere in intervals.h. A draw appends after
 * the last one: O(1). ledger_past.c handles seeks.
 */
#include "sampler/ledger/ledger_skipped.h"

#include "sampler/ledger/ledger_past.h"

enum error ledger_skipped_reserve(struct ledger *ledger)
{
    if (ledger->past && ledger->skipped.count == LEDGER_PAST_SINCE)
        return error_set(ERROR_TIMEOUT, "the stream is being sought at this moment; ask again");
    return intervals_reserve(&ledger->skipped, 1);
}

void ledger_skipped_trim(struct intervals *skipped)
{
    while (skipped->count > LEDGER_SKIPPED_LIMIT)
        intervals_cut_front(skipped, intervals_at(skipped, 0)->end);
}

void ledger_skipped_add(struct ledger *ledger, int64_t begin, int64_t end)
{
    intervals_add(&ledger->skipped, begin, end);
    ledger_skipped_trim(&ledger->skipped);
}
