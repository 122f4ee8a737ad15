/* SPDX-License-Identifier: MIT */
/*
 * Positions before the stream's current one that were skipped: never drawn, never to be drawn. A
 * seek went beyond them (also beyond leased batches, which it withdraws, and gaps), the stream was
 * created behind them, or tail `drop` left them out. Only reports read them: no draw does.
 *
 * A seek back forgets those from there on, which are ahead again. A restore forgets all, since a
 * token does not distinguish them from what is done. At most LEDGER_SKIPPED_LIMIT spans are kept;
 * the lowest ones are forgotten first, and count as done then.
 */
#ifndef SAMPLER_LEDGER_LEDGER_SKIPPED_H
#define SAMPLER_LEDGER_LEDGER_SKIPPED_H

#include "sampler/ledger/ledger.h"

#define LEDGER_SKIPPED_LIMIT 65536

/* Room for one more span. ERROR_TIMEOUT: first a seek must be settled. */
enum error ledger_skipped_reserve(struct ledger *ledger) MUST_CHECK;
/* [begin, end), begin < end, behind all that were skipped so far. Room is reserved. */
void ledger_skipped_add(struct ledger *ledger, int64_t begin, int64_t end);

/* Forgets the lowest ones of too many. */
void ledger_skipped_trim(struct intervals *skipped);

#endif
