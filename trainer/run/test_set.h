/* SPDX-License-Identifier: MIT */
/*
 * A test set: all rows of a store in device memory, in the store's form, with their targets; for
 * scoring a model every hundred steps.
 *
 * Memory: R * (F * element + 4) bytes on the device and 4 R bytes on the host.
 */
#ifndef TRAINER_RUN_TEST_SET_H
#define TRAINER_RUN_TEST_SET_H

#include "common/error.h"
#include "loader/feed/feed.h"
#include "loader/store/store.h"
#include "trainer/compute/engine.h"
#include "trainer/model/feature_input.h"
#include "trainer/model/model.h"
#include "trainer/model/targets.h"

struct test_set;

/* Reads the whole store. It must have the columns that the model needs, and only labels known to
 * `targets` (made for it). `bad_rows` decides whether bad rows end it, are left out, or are zeros
 * (their number is logged); ERROR_INPUT if no row is left. Everything is borrowed until
 * test_set_free() except store and targets. */
enum error test_set_new(const struct engine *engine, struct store *store,
                        const struct targets *targets, const struct feature_input_options *features,
                        enum bad_rows bad_rows, struct test_set **ret_set) MUST_CHECK;
void test_set_free(struct test_set *set);

/* Scores the model on all rows. ERROR_CANCELLED after stop_requested(). */
enum error test_set_score(struct test_set *set, struct model *model,
                          struct model_score *ret_score) MUST_CHECK;

#endif
