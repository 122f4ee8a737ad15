/* SPDX-License-Identifier: MIT */
/*
 * The ledger of a training's batches: which are done, which are granted to which holder, and which
 * come next. A batch is a number K, whose content the sampler's order defines, so nothing else has
 * to be stored.
 *
 *   free --batch_ledger_grant--> granted to one holder --batch_ledger_done--> done
 *                                                      --batch_ledger_give_back--> free
 *
 * A batch that was given back is granted again before any later one. Done is final, whoever reports
 * it: a holder that lost a batch may still have finished it.
 *
 * After ERROR_MEMORY `done` is still right, but not what is free or held; the ledger may only be
 * released.
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
    struct index_set returned; /* granted once and given back: granted first */
    int64_t next;              /* the first never granted */
    int64_t end;               /* the stream ends before this batch; INT64_MAX: not known yet */
};

/* What one worker holds. All zeros is empty. */
struct batch_holder {
    struct index_set held;
};

/* A training that has done `done` (copied); nothing is granted. The caller releases it in any
 * case. */
enum error batch_ledger_init(struct batch_ledger *ledger, const struct index_set *done) MUST_CHECK;
void batch_ledger_release(struct batch_ledger *ledger);

/* The next run of free batches, at most `most` (> 0), now held by `holder`. An empty range: none is
 * left before the stream's end. */
enum error batch_ledger_grant(struct batch_ledger *ledger, struct batch_holder *holder,
                              int64_t most, struct index_range *ret_range) MUST_CHECK;
/* The same for one free batch: earlier batches never granted stay free. */
enum error batch_ledger_grant_one(struct batch_ledger *ledger, struct batch_holder *holder,
                                  int64_t index) MUST_CHECK;
/* `index` is done; `holder` (NULL: none) no longer holds it. */
enum error batch_ledger_done(struct batch_ledger *ledger, struct batch_holder *holder,
                             int64_t index) MUST_CHECK;
/* The stream ends before batch `end`. */
enum error batch_ledger_end(struct batch_ledger *ledger, int64_t end) MUST_CHECK;
/* Frees what the holder holds, except what others have done meanwhile. */
enum error batch_ledger_give_back(struct batch_ledger *ledger,
                                  struct batch_holder *holder) MUST_CHECK;
/* Is every batch before the stream's end done? */
bool batch_ledger_is_finished(const struct batch_ledger *ledger);

#endif
