/* SPDX-License-Identifier: MIT */
/*
 * A model: a chain of dense layers with a loss and an optimizer, on one device.
 *
 *   linear   y = x w + b                                 one output, squared error
 *   softmax  logits = x sm_w + sm_b                      L classes; starts from zeros
 *   mlp      h = relu(x hid_w + hid_b) per hidden layer, then as softmax; weights start from
 *            truncated_normal with stddev 1 / sqrt(inputs), biases from 0
 *
 * Its state is one flat buffer of floats in device memory: all parameters (P floats, layer by
 * layer, weights before bias), then the optimizer's slots in the same order, P floats each. Named
 * views (struct model_tensor, model_shape.h) describe its parts; the gradient is a second buffer of
 * P floats laid out like the parameters. A step allocates nothing and does not wait for the device.
 *
 * Threads: one at a time. Dimensions: B rows per batch, F features, H hidden units, L classes, P
 * parameters, S slots.
 */
#ifndef TRAINER_MODEL_MODEL_H
#define TRAINER_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/kernel.h"
#include "trainer/model/model_shape.h"
#include "trainer/model/network.h"

struct model;

/* The initial state of a model, on the host, in the given layout of `options`. */
void model_initial_state(const struct model_options *options, const struct model_layout *layout,
                         float *ret_state);

/* Allocates and initializes; step 0. `kernel` is borrowed until model_free(). ERROR_USAGE if the
 * options contradict each other or exceed a limit. */
enum error model_new(const struct model_options *options, struct kernel *kernel,
                     struct model **ret_model) MUST_CHECK;
void model_free(struct model *model);

const struct model_options *model_get_options(const struct model *model);
/* P, and the floats of the whole state, P * (1 + S). */
size_t model_parameters(const struct model *model);
size_t model_state_count(const struct model *model);
/* The layout of the state. */
const struct model_layout *model_get_layout(const struct model *model);

/* Updates applied so far (the global step); Adam's t is one more. */
int64_t model_get_step(const struct model *model);

/* For exchanging gradients: the values and the gradient of the latest batch, [P] each in device
 * memory, borrowed; and the global step, counted elsewhere. */
float *model_values(struct model *model);
float *model_gradient_values(struct model *model);
void model_set_step(struct model *model, int64_t step);
/* Moves both to other buffers [P], borrowed until it is called again with NULLs, which moves them
 * back; the model computes with them there. On the CPU only; no updates, reads or writes of the
 * state meanwhile. */
void model_move(struct model *model, float *values, float *gradient);

/* Copies the state between host memory and the device, and waits. model_write() also sets the
 * step. */
enum error model_read(struct model *model, float *ret_state) MUST_CHECK;
enum error model_write(struct model *model, const float *state, int64_t step) MUST_CHECK;

/* One training step: forward, backward, update; step + 1. Enqueued: returns before it is done.
 * ERROR_INPUT if a class is out of range, naming the row of the batch. */
enum error model_step(struct model *model, const struct model_batch *batch) MUST_CHECK;
/* Its two halves, for exchanging gradients: computes the gradient of `batch` in the gradient
 * buffer; makes one update of all parameters from that buffer. */
enum error model_gradient(struct model *model, const struct model_batch *batch) MUST_CHECK;
enum error model_apply(struct model *model) MUST_CHECK;
/* An update from another gradient [P], unless *only_if is 0 when it runs; both in device memory.
 * The model's step counts it in any case (model_set_step()). */
enum error model_apply_if(struct model *model, const float *gradient,
                          const int32_t *only_if) MUST_CHECK;

/* The loss of the latest model_step() or model_gradient(), before its update. Waits.
 * ERROR_NOT_FOUND if there was none yet. */
enum error model_loss(struct model *model, double *ret_loss) MUST_CHECK;
/* The score of that batch as model_evaluate() would have computed it before the update: requested,
 * and read later without a wait (network.h). */
enum error model_send_score(struct model *model) MUST_CHECK;
enum error model_take_score(struct model *model, struct model_score *ret_score) MUST_CHECK;
/* Copies the gradient buffer to host memory [P]. Waits. */
enum error model_read_gradient(struct model *model, float *ret_gradient) MUST_CHECK;

/* Adds a batch to *score. Waits. */
enum error model_evaluate(struct model *model, const struct model_batch *batch,
                          struct model_score *score) MUST_CHECK;
/* Copies the outputs of the latest model_evaluate() for its `rows` rows to host memory: logits
 * [rows, L]; for a classifier. Waits. */
enum error model_read_outputs(struct model *model, size_t rows, float *ret_outputs) MUST_CHECK;
/* The loss over all scored rows, as the model's loss defines it: sum, or mean over the rows. */
double model_score_loss(const struct model *model, const struct model_score *score);

/* Writes probabilities [rows, L], or y [rows, 1] for linear, to host memory. Waits. */
enum error model_predict(struct model *model, const float *features, size_t rows,
                         float *ret_output) MUST_CHECK;

#endif
