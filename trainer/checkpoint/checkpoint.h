/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint: one safetensors file with everything needed to resume training or to use the model:
 * parameters and optimizer slots by name (hid_w, hid_w/Adagrad), `global_step` (I64), with
 * --normalize feature_mean and feature_deviation [F], and as metadata the model's description, the
 * scale of features, the classes, and the stream position. The same training state gives the same
 * bytes.
 *
 * A file is written aside, fsynced and renamed; opening one checks its digest, so that training
 * never uses a damaged or truncated file. The logdir knows which file is the newest (logdir.h).
 *
 * Metadata, all texts: format "tombola checkpoint 1"; model, features, hidden_units, outputs, loss,
 * optimizer, learning_rate, the other hyperparameters that differ from the default
 * (hyperparameters.h), seed; target_mean and target_deviation of a normalized regression;
 * feature_scale; classes (a JSON list; [] for a regression); feature_names (a JSON object,
 * feature_names.h; older ones have none); sampler (a JSON object, stream_position.h).
 */
#ifndef TRAINER_CHECKPOINT_CHECKPOINT_H
#define TRAINER_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/checkpoint_facts.h"
#include "trainer/model/model.h"

struct checkpoint;

/* Opens, verifies the digest and reads everything but the parameters. ERROR_INPUT: damaged,
 * truncated, or not a checkpoint; ERROR_NOT_FOUND: no such file. Reads the whole file once. */
enum error checkpoint_open(const char *path, struct checkpoint **ret_checkpoint) MUST_CHECK;
/* The same for a file that another program may have written: a missing digest is a warning, and
 * without our metadata it is a file of tensors, without facts, at step 0. */
enum error checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint) MUST_CHECK;
/* Output of checkpoint_print_facts(): a checkpoint without parameters; `name` is its path in
 * messages. */
enum error checkpoint_open_facts(const char *name, const void *bytes, size_t length,
                                 struct checkpoint **ret_checkpoint) MUST_CHECK;
void checkpoint_close(struct checkpoint *checkpoint);

/* Does it have the metadata of a checkpoint? If not, its facts are all zeros. */
bool checkpoint_has_facts(const struct checkpoint *checkpoint);
/* Copies the file to `path`, all or nothing. Works even if rotation has removed the file since it
 * was opened. */
enum error checkpoint_copy(const struct checkpoint *checkpoint, const char *path) MUST_CHECK;

/* Borrowed until checkpoint_close(). */
const char *checkpoint_path(const struct checkpoint *checkpoint);
const struct checkpoint_facts *checkpoint_get_facts(const struct checkpoint *checkpoint);
int64_t checkpoint_step(const struct checkpoint *checkpoint);
/* Did training end with it although steps and batches were left, as with --early-stopping? */
bool checkpoint_was_stopped(const struct checkpoint *checkpoint);

/* ERROR_CONFLICT naming the first difference if `model` differs from the checkpoint's: kind, hidden
 * layers, loss, optimizer or the initial value of its slots; then features and outputs unless these
 * are 0 (not known yet). Hyperparameters and seed may differ. */
enum error checkpoint_compare(const struct checkpoint *checkpoint,
                              const struct model_options *model) MUST_CHECK;

/* ERROR_CONFLICT naming the first hyperparameter that differs from `model`'s: for comparing two
 * processes of one training. */
enum error checkpoint_compare_hyperparameters(const struct checkpoint *checkpoint,
                                              const struct model_options *model) MUST_CHECK;

/* Sets every tensor of `model` (only the parameters, if it has no slots) and its step from the
 * checkpoint. ERROR_CONFLICT naming a tensor that is missing or of another shape; ERROR_INPUT: a
 * value is not finite, as only another program writes it. */
enum error checkpoint_restore(const struct checkpoint *checkpoint, struct model *model) MUST_CHECK;
/* Sets the parameters of `model`; its slots stay unchanged and its step is 0. */
enum error checkpoint_restore_parameters(const struct checkpoint *checkpoint,
                                         struct model *model) MUST_CHECK;

/* The same two for a state in host memory, state[layout->state]. */
enum error checkpoint_read_state(const struct checkpoint *checkpoint,
                                 const struct model_layout *layout, float *state) MUST_CHECK;
enum error checkpoint_read_parameters(const struct checkpoint *checkpoint,
                                      const struct model_layout *layout, float *state) MUST_CHECK;

/* The facts and the step in the format of a checkpoint without parameters. */
enum error checkpoint_print_facts(const struct checkpoint_facts *facts, int64_t step,
                                  struct buffer *out) MUST_CHECK;

/* The training state at one moment: the content of a checkpoint, in host memory, so that it can be
 * written while training continues. Waits for the device, not for the disk. The norm of `facts` is
 * borrowed until it is freed. */
struct checkpoint_snapshot;
enum error checkpoint_snapshot_new(struct model *model, const struct checkpoint_facts *facts,
                                   struct checkpoint_snapshot **ret_snapshot) MUST_CHECK;
/* The same for a state in host memory, which is taken, also on failure. */
enum error checkpoint_snapshot_of(float *state, int64_t step, const struct model_layout *layout,
                                  const struct checkpoint_facts *facts,
                                  struct checkpoint_snapshot **ret_snapshot) MUST_CHECK;
void checkpoint_snapshot_free(struct checkpoint_snapshot *snapshot);
int64_t checkpoint_snapshot_step(const struct checkpoint_snapshot *snapshot);

/* ERROR_INPUT if a value is not finite: such a state is never saved. Any thread. */
enum error checkpoint_snapshot_write(const struct checkpoint_snapshot *snapshot,
                                     const char *path) MUST_CHECK;

#endif
