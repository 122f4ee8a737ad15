/* SPDX-License-Identifier: MIT */
/*
 * The positions that were open at one moment, for a checkpoint, listed piece by piece while the
 * ledger changes: whatever leaves gaps and leases meanwhile is added by ledger_apply(), since it
 * was open then. What is new meanwhile is beyond `end`. A seek or restore between two pieces makes
 * it begin again. Spans may come twice.
 */
#ifndef SAMPLER_LEDGER_LEDGER_LISTING_H
#define SAMPLER_LEDGER_LEDGER_LISTING_H

#include "sampler/ledger/ledger.h"

struct ledger_listing {
    struct ledger_listing *next;
    int64_t end;                /* the ledger's position at that moment */
    int64_t jumps;              /* the ledger's, too */
    int64_t gaps_at, leases_at; /* what is open below is listed */
    struct interval *items;     /* [count]; owned: free() */
    size_t count, capacity;
};

/* Until ledger_listing_end() the ledger knows it. */
void ledger_listing_begin(struct ledger *ledger, struct ledger_listing *listing);
void ledger_listing_end(struct ledger *ledger, struct ledger_listing *listing);
/* Some more. *ret_more: not all yet. ERROR_MEMORY. */
enum error ledger_listing_some(struct ledger *ledger, struct ledger_listing *listing,
                               bool *ret_more) MUST_CHECK;

/* For ledger_prepare() and ledger_apply(): room for as many spans; one that leaves. */
enum error ledger_listing_reserve(struct ledger *ledger, size_t more) MUST_CHECK;
void ledger_listing_add(struct ledger *ledger, int64_t first, int64_t positions);

#endif
