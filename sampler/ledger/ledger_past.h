/* SPDX-License-Identifier: MIT */
/*
 * What a seek or a restore takes out of a ledger, in O(1): leases, gaps, skipped spans, and for a
 * restore the workers. After a seek, positions that were leased or in gaps become skipped. The
 * merge of all three touches only what was taken out, so it runs without the caller's lock:
 *
 *     with the lock       ledger->past = past; prepare and apply the entry
 *     without             ledger_past_merge()
 *     with it again       ledger_past_settle(), unless the ledger was replaced: ledger->past tells
 *     without             ledger_past_release()
 *
 * Until it is settled, a position is skipped if it is in ledger->skipped or ledger_past_skips()
 * says so. Without a ledger->past, ledger_apply() does it all at once. A restore leaves nothing to
 * settle.
 */
#ifndef SAMPLER_LEDGER_LEDGER_PAST_H
#define SAMPLER_LEDGER_LEDGER_PAST_H

#include "sampler/ledger/ledger.h"

/* Spans that may be skipped before a seek is settled. */
#define LEDGER_PAST_SINCE 256

struct ledger_past {
    struct intervals skipped, gaps; /* as before */
    struct lease_set leases;
    struct worker_table workers;
    int64_t position; /* as before */
    int64_t sought;   /* target of the seek: only positions below it count */
    /* The replacement. For a restore: the gaps that it makes, set by the caller. For a seek: room
     * for the merge, and for spans skipped until it is settled. */
    struct intervals next;
};

void ledger_past_init(struct ledger_past *past);
void ledger_past_release(struct ledger_past *past);

/* Reserves room for the `next` of a seek, in ledger->room. */
enum error ledger_past_reserve(struct ledger *ledger) MUST_CHECK;
/* Takes the contents; empties the ledger. */
void ledger_past_take(struct ledger_past *past, struct ledger *ledger);
/* Upper bound of the spans that ledger_past_merge() adds. */
size_t ledger_past_spans(const struct ledger_past *past);
/* Writes all spans that became skipped to `skipped`, which is empty and has room. O(spans). */
void ledger_past_merge(const struct ledger_past *past, struct intervals *skipped);
/* The merged `next`, with the spans skipped since, becomes what the ledger skips. O(these). */
void ledger_past_settle(struct ledger_past *past, struct ledger *ledger);
/* Was the position skipped by the seek that took `past`, or before it? */
bool ledger_past_skips(const struct ledger_past *past, int64_t position);

#endif
