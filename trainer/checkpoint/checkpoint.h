/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint: one safetensors file that holds all that training needs to go on, or a model to be
 * used: parameters and optimizer slots under their names (hid_w, hid_w/Adagrad), `global_step`
 * (I64), with --normalize feature_mean and feature_deviation [F], and as metadata the model's
 * description, the factor that features are multiplied with, the classes, and the stream position.
 * The same training state gives the same bytes.
 *
 * A file is written aside, fsynced and renamed; opening one checks its digest, so that a damaged or
 * cut file is never trained on. Which file is the newest is the logdir's business (logdir.h).
 *
 * Metadata, all texts: format "tombola checkpoint 1"; model, features, hidden_units, outputs, loss,
 * optimizer, learning_rate, the other hyperparameters that are not the default
 * (hyperparameters.h), seed; target_mean and target_deviation of a regression that was
 * normalized; feature_scale; classes (a JSON list; [] for a regression);
 * feature_names (a JSON object, feature_names.h; older ones have none); sampler (a JSON object,
 * stream_position.h).
 */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_H
#define TRAINER_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/checkpoint_facts.h"
#include "trainer/model/model.h"

struct checkpoint;

/* Opens, verifies the digest and reads all but the parameters. ERROR_INPUT: damaged, cut, or no
 * checkpoint; ERROR_NOT_FOUND: there is no such file. Reads the whole file once. */
enum error checkpoint_open(const char *path, struct checkpoint **ret_checkpoint) MUST_CHECK;
/* The same for a file that another program may have written: that it has no digest is a warning,
 * and without our metadata it is a file of tensors, without facts and of step 0. */
enum error checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint) MUST_CHECK;
/* What checkpoint_print_facts() wrote: a checkpoint without parameters; `name` is its path in
 * messages. */
enum error checkpoint_open_facts(const char *name, const void *bytes, size_t length,
                                 struct checkpoint **ret_checkpoint) MUST_CHECK;
void checkpoint_close(struct checkpoint *checkpoint);

/* Has it the metadata of a checkpoint? Else its facts are all zeros. */
bool checkpoint_has_facts(const struct checkpoint *checkpoint);
/* The file's bytes into `path`, whole or not at all. Also of a file that rotation has removed since
 * it was opened. */
enum error checkpoint_copy(const struct checkpoint *checkpoint, const char *path) MUST_CHECK;

/* Borrowed until checkpoint_close(). */
const char *checkpoint_path(const struct checkpoint *checkpoint);
const struct checkpoint_facts *checkpoint_get_facts(const struct checkpoint *checkpoint);
int64_t checkpoint_step(const struct checkpoint *checkpoint);
/* Did training end with it though there are steps and batches left? --early-stopping does that. */
bool checkpoint_was_stopped(const struct checkpoint *checkpoint);

/* ERROR_CONFLICT naming the first difference when `model` is another model than the checkpoint's:
 * kind, hidden layers, loss, optimizer or where its slots began; then features and outputs where
 * these are not 0 (not known yet). Hyperparameters and seed may differ. */
enum error checkpoint_compare(const struct checkpoint *checkpoint,
                              const struct model_options *model) MUST_CHECK;

/* ERROR_CONFLICT naming the first hyperparameter that is another one than `model` has: for what two
 * processes of one training say. */
enum error checkpoint_compare_hyperparameters(const struct checkpoint *checkpoint,
                                              const struct model_options *model) MUST_CHECK;

/* Puts the checkpoint's values into every tensor that `model` has (one made without an optimizer's
 * slots takes the parameters alone), and its step. ERROR_CONFLICT naming a tensor that is missing
 * or of another shape. */
enum error checkpoint_restore(const struct checkpoint *checkpoint, struct model *model) MUST_CHECK;
/* Puts its parameters into `model`, whose slots stay as they are and whose step is 0. */
enum error checkpoint_restore_parameters(const struct checkpoint *checkpoint,
                                         struct model *model) MUST_CHECK;

/* The same two for a state in host memory, state[layout->state]. */
enum error checkpoint_read_state(const struct checkpoint *checkpoint,
                                 const struct model_layout *layout, float *state) MUST_CHECK;
enum error checkpoint_read_parameters(const struct checkpoint *checkpoint,
                                      const struct model_layout *layout, float *state) MUST_CHECK;

/* Facts and step as the bytes of a checkpoint without parameters. */
enum error checkpoint_print_facts(const struct checkpoint_facts *facts, int64_t step,
                                  struct buffer *out) MUST_CHECK;

/* A training state as it was at one moment: what a checkpoint will hold, in host memory, so that it
 * can be written while training goes on. Waits for the device, not for the disk. The norm of
 * `facts` is borrowed until it is freed. */
struct checkpoint_snapshot;
enum error checkpoint_snapshot_new(struct model *model, const struct checkpoint_facts *facts,
                                   struct checkpoint_snapshot **ret_snapshot) MUST_CHECK;
/* The same of a state in host memory, which is taken, also on failure. */
enum error checkpoint_snapshot_of(float *state, int64_t step, const struct model_layout *layout,
                                  const struct checkpoint_facts *facts,
                                  struct checkpoint_snapshot **ret_snapshot) MUST_CHECK;
void checkpoint_snapshot_free(struct checkpoint_snapshot *snapshot);
int64_t checkpoint_snapshot_step(const struct checkpoint_snapshot *snapshot);

/* ERROR_INPUT when a value is not finite: such a state is never saved. Any thread. */
enum error checkpoint_snapshot_write(const struct checkpoint_snapshot *snapshot,
                                     const char *path) MUST_CHECK;

#endif
