/* SPDX-License-Identifier: MIT */
/*
 * What a seek or a restore takes out of a ledger, in O(1): leases, gaps, skipped spans, and the
 * workers of a restore. Of a seek, positions that were leased or to be drawn become skipped ones:
 * a merge of all three, which touches nothing but what was taken out, so that whoever holds a lock
 * does it without:
 *
 *     with the lock       ledger->past = past; prepare and apply the entry
 *     without             ledger_past_merge()
 *     with it again       ledger_past_settle(), unless the ledger was replaced: ledger->past tells
 *     without             ledger_past_release()
 *
 * Until it is settled, a position is skipped if ledger->skipped has it or ledger_past_skips() says
 * so. Without a ledger->past ledger_apply() does all at once. A restore leaves nothing to settle.
 */
#ifndef SAMPLER_LEDGER_LEDGER_PAST_H
#define SAMPLER_LEDGER_LEDGER_PAST_H

#include "sampler/ledger/ledger.h"

/* Spans that may be skipped until a seek is settled. */
#define LEDGER_PAST_SINCE 256

struct ledger_past {
    struct intervals skipped, gaps; /* as they were */
    struct lease_set leases;
    struct worker_table workers;
    int64_t position; /* as it was */
    int64_t sought;   /* where the seek went: positions below it count */
    /* What comes instead. Of a restore, and given by the caller: the gaps that it makes. Of a seek:
     * room for the merge, and for what is skipped until it is settled. */
    struct intervals next;
};

void ledger_past_init(struct ledger_past *past);
void ledger_past_release(struct ledger_past *past);

/* Room for the `next` of a seek, in ledger->room. */
enum error ledger_past_reserve(struct ledger *ledger) MUST_CHECK;
/* Empties the ledger. */
void ledger_past_take(struct ledger_past *past, struct ledger *ledger);
/* How many spans ledger_past_merge() adds at most. */
size_t ledger_past_spans(const struct ledger_past *past);
/* All that is skipped since, into `skipped`, which is empty and has room. O(spans). */
void ledger_past_merge(const struct ledger_past *past, struct intervals *skipped);
/* `next` is merged, and becomes what the ledger skips, with what it skipped since. O(those). */
void ledger_past_settle(struct ledger_past *past, struct ledger *ledger);
/* Is the position skipped by the seek that took `past`, or was it before? */
bool ledger_past_skips(const struct ledger_past *past, int64_t position);

#endif
