/* SPDX-License-Identifier: MIT */
/*
 * Which batches a synchronous step has: the first N that are not applied, before the stream's end.
 * What a training has learnt from after so many steps follows from what it began with.
 *
 * Threads: any number that only read.
 */
#ifndef TRAINER_LEDGER_STEP_BATCHES_H
#define TRAINER_LEDGER_STEP_BATCHES_H

#include <stdint.h>

#include "common/error.h"
#include "common/index_set.h"

/* The batch of this place, from 0, among those before `end` that are not in `applied`; -1: there is
 * none. */
int64_t step_batches_at(const struct index_set *applied, int64_t place, int64_t end);
/* Adds the first `count` of them, or as many as there are. */
enum error step_batches_apply(struct index_set *applied, int64_t count, int64_t end) MUST_CHECK;

#endif
