/*
 * What a book knows of positions below its place that were never drawn and will not be: a seek
 * passed over them (also over what was lent and is withdrawn, and over gaps), the stream was
 * created behind them, or tail `drop` skipped them. Nothing but reports asks for them.
 *
 * A seek back forgets what is from there on: that is ahead again. A restore forgets all: a token
 * does not tell them from what is done. At most LEDGER_SKIPPED_LIMIT spans are kept; the lowest
 * ones are forgotten first, and count as done then.
 */
#ifndef SAMPLER_LEDGER_LEDGER_SKIPPED_H
#define SAMPLER_LEDGER_LEDGER_SKIPPED_H

#include "sampler/ledger/ledger.h"

#define LEDGER_SKIPPED_LIMIT 65536

/* Room for one more span. */
enum error ledger_skipped_reserve(struct ledger *ledger) MUST_CHECK;
/* [begin, end), begin < end, behind all that were passed over so far. Room is reserved. */
void ledger_skipped_add(struct ledger *ledger, int64_t begin, int64_t end);

/* The same for a seek, which may leave every lease and gap behind. */
enum error ledger_skipped_reserve_seek(struct ledger *ledger) MUST_CHECK;
/* Before leases and gaps are withdrawn: all below `position` that is not done is passed over. */
void ledger_skipped_seek(struct ledger *ledger, int64_t position);

#endif
