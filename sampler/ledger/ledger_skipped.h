/* SPDX-License-Identifier: MIT */
/*
 * Positions before the stream's current one that were skipped: never drawn, never to be drawn. A
 * seek passed them (including leased batches, which it withdraws, and gaps), the stream was created
 * after them, or tail `drop` omitted them. Only reports read them, never draws.
 *
 * A seek back removes those from its target on, which are ahead again. A restore removes all, since
 * a token does not distinguish them from what is done. At most LEDGER_SKIPPED_LIMIT spans are kept;
 * the lowest are dropped first, and then count as done.
 */
#ifndef SAMPLER_LEDGER_LEDGER_SKIPPED_H
#define SAMPLER_LEDGER_LEDGER_SKIPPED_H

#include "sampler/ledger/ledger.h"

#define LEDGER_SKIPPED_LIMIT 65536

/* Room for one more span. ERROR_TIMEOUT: a seek must be settled first. */
enum error ledger_skipped_reserve(struct ledger *ledger) MUST_CHECK;
/* Adds [begin, end), begin < end, after all others. Room must be reserved. */
void ledger_skipped_add(struct ledger *ledger, int64_t begin, int64_t end);

/* Drops the lowest spans beyond the limit. */
void ledger_skipped_trim(struct intervals *skipped);

#endif
