/* SPDX-License-Identifier: MIT */
/*
 * The ledger of a training's batches: which of them are done, which are granted to whom, and which
 * come next. A batch is a number K; what is in it the sampler's order says, so nothing else has to
 * be remembered.
 *
 *   free --batch_ledger_grant--> granted to one holder --batch_ledger_done--> done
 *                                                      --batch_ledger_give_back--> free
 *
 * A batch that was given back is granted again before any later one. Done is final, whoever says
 * so: a holder that lost a batch may have finished it all the same.
 *
 * ERROR_MEMORY: what is free and who holds what may be wrong from then on, `done` is not; the
 * ledger is only to be released.
 *
 * Threads: one at a time.
 */
#ifndef TRAINER_LEDGER_BATCH_LEDGER_H
#define TRAINER_LEDGER_BATCH_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/index_set.h"

struct batch_ledger {
    struct index_set done;
    struct index_set returned; /* granted once and given back: to be granted first */
    int64_t next;              /* the first that was never granted */
    int64_t end;               /* the stream ends before this batch; INT64_MAX: not known yet */
};

/* What one worker holds. Zeros hold nothing. */
struct batch_holder {
    struct index_set held;
};

/* A training that has done `done` (copied); nothing is granted. batch_ledger_release() in any
 * case. */
enum error batch_ledger_init(struct batch_ledger *ledger, const struct index_set *done) MUST_CHECK;
void batch_ledger_release(struct batch_ledger *ledger);

/* The next run of free batches, at most `most` (> 0) of them, now held by `holder`. An empty range:
 * there is none before the stream's end. */
enum error batch_ledger_grant(struct batch_ledger *ledger, struct batch_holder *holder,
                              int64_t most, struct index_range *ret_range) MUST_CHECK;
/* The same for one batch that is free: those before it that nobody was granted yet stay free. */
enum error batch_ledger_grant_one(struct batch_ledger *ledger, struct batch_holder *holder,
                                  int64_t index) MUST_CHECK;
/* `index` is done; `holder` (NULL: nobody) does not hold it any more. */
enum error batch_ledger_done(struct batch_ledger *ledger, struct batch_holder *holder,
                             int64_t index) MUST_CHECK;
/* The stream has no batch `end` and none behind it. */
enum error batch_ledger_end(struct batch_ledger *ledger, int64_t end) MUST_CHECK;
/* What the holder holds, but for what another one has done meanwhile, is free again. */
enum error batch_ledger_give_back(struct batch_ledger *ledger,
                                  struct batch_holder *holder) MUST_CHECK;
/* Is every batch before the stream's end done? */
bool batch_ledger_is_finished(const struct batch_ledger *ledger);

#endif
