/* SPDX-License-Identifier: MIT */
/*
 * The positions that were open at one moment, for a checkpoint, listed piece by piece while the
 * ledger changes: ledger_apply() adds whatever leaves gaps and leases meanwhile, because it was
 * open then. Anything newer is beyond `end`. A seek or restore between two pieces restarts the
 * listing. Spans may be listed twice.
 */
#ifndef SAMPLER_LEDGER_LEDGER_LISTING_H
#define SAMPLER_LEDGER_LEDGER_LISTING_H

#include "sampler/ledger/ledger.h"

struct ledger_listing {
    struct ledger_listing *next;
    int64_t end;                /* the ledger's position at that moment */
    int64_t jumps;              /* the ledger's at that moment */
    int64_t gaps_at, leases_at; /* how far gaps and leases are listed */
    struct interval *items;     /* [count]; owned: free() */
    size_t count, capacity;
};

/* The ledger keeps a reference until ledger_listing_end(). */
void ledger_listing_begin(struct ledger *ledger, struct ledger_listing *listing);
void ledger_listing_end(struct ledger *ledger, struct ledger_listing *listing);
/* Lists some more. *ret_more: not complete yet. ERROR_MEMORY. */
enum error ledger_listing_some(struct ledger *ledger, struct ledger_listing *listing,
                               bool *ret_more) MUST_CHECK;

/* For ledger_prepare() and ledger_apply(): reserves room for more spans; adds one that leaves. */
enum error ledger_listing_reserve(struct ledger *ledger, size_t more) MUST_CHECK;
void ledger_listing_add(struct ledger *ledger, int64_t first, int64_t positions);

#endif
