/* SPDX-License-Identifier: MIT */
/* Shared by training_parts.c, training_parts_data.c and training_parts_model.c. Private to them. */
#ifndef TRAINER_RUN_TRAINING_PARTS_PRIVATE_H
#define TRAINER_RUN_TRAINING_PARTS_PRIVATE_H

#include "trainer/run/training_parts.h"

/* The checkpoint that the first parameters come from; NULL: none, or one without facts. */
const struct checkpoint *training_parts_origin(const struct training_parts *parts);
/* Of the checkpoint to be resumed; NULL: a new training. */
const struct checkpoint_facts *training_parts_saved_facts(const struct training_parts *parts);

/* ERROR_CONFLICT: the options' --feature-scale, or --normalize, is not the origin's. */
enum error training_parts_compare_scale(const struct training_parts *parts) MUST_CHECK;
enum error training_parts_compare_norm(const struct training_parts *parts) MUST_CHECK;
/* ERROR_CONFLICT: what server 0 trains has another shape, or other hyperparameters. */
enum error training_parts_compare(const struct checkpoint *held,
                                  const struct model_options *model) MUST_CHECK;

/* A training keeps the seed of its first start. Warns if --seed is another one. */
void training_parts_take_seed(struct training_parts *parts, uint64_t seed);

/* In this order, each filling in `facts`: the store with its features; the sampler's order; its
 * classes; mean and deviation of the features; the model. */
enum error training_parts_open_store(struct training_parts *parts) MUST_CHECK;
enum error training_parts_ask_sampler(struct training_parts *parts) MUST_CHECK;
enum error training_parts_ask_classes(struct training_parts *parts) MUST_CHECK;
enum error training_parts_choose_norm(struct training_parts *parts) MUST_CHECK;
enum error training_parts_make_model(struct training_parts *parts) MUST_CHECK;

/* Labels that look like measurements, but are trained as classes. */
void training_parts_warn_of_fractions(const struct training_parts *parts);

#endif
