/* SPDX-License-Identifier: MIT */
/*
 * The batches of a synchronous step: the first N that are not applied, before the stream's end. So
 * what a training has learnt from after a number of steps follows from what it began with.
 *
 * Threads: any number of readers.
 */
#ifndef TRAINER_LEDGER_STEP_BATCHES_H
#define TRAINER_LEDGER_STEP_BATCHES_H

#include <stdint.h>

#include "common/error.h"
#include "common/index_set.h"

/* The batch at `place`, from 0, among those before `end` that are not in `applied`; -1: none. */
int64_t step_batches_at(const struct index_set *applied, int64_t place, int64_t end);
/* Adds the first `count` of them, or as many as there are. */
enum error step_batches_apply(struct index_set *applied, int64_t count, int64_t end) MUST_CHECK;

#endif
