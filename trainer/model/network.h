/* SPDX-License-Identifier: MIT */
/*
 * A network: the computation of a model on a batch. A chain of dense layers with a loss, forward
 * and backward; the parameter values are borrowed for each call.
 *
 *   linear   y = x w + b                                 one output, squared error
 *   softmax  logits = x sm_w + sm_b                      L classes
 *   mlp      h = relu(x hid_w + hid_b) per hidden layer, then as softmax
 *
 * Values and gradients are flat, P floats in device memory, with the layout of model_shape.h. A
 * call allocates nothing and, unless noted, does not wait for the device.
 *
 * Threads: the kernel's. Dimensions: B rows per batch, F features, L classes, P parameters.
 */
#ifndef TRAINER_MODEL_NETWORK_H
#define TRAINER_MODEL_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/kernel.h"
#include "trainer/model/model_shape.h"

/* One batch. `features` is device memory; the others are host memory and may be reused as soon as
 * the call returns. Reads exactly one of classes and targets (targets for linear). */
struct model_batch {
    int64_t index;         /* K, which determines dropout; only for gradients */
    size_t rows;           /* 1 to batch_rows */
    const float *features; /* [rows, F], device; NULL: */
    const uint8_t *bytes;  /* [rows, F], device, times scale (kernel_input_bytes()) */
    float scale;
    const int32_t *classes; /* [rows], 0 to L-1, host */
    const float *targets;   /* [rows], host */
};

/* Totals over the batches given to model_evaluate(), starting from zeros, or of one batch. */
struct model_score {
    int64_t rows;    /* 0: none */
    int64_t correct; /* rows whose largest logit (first of equals) is their class; linear: 0 */
    int64_t moving;  /* rows with a gradient; 0: no parameter has one */
    double loss_sum; /* sum over rows, also for losses that are means */
};

/* How many batches the host may be ahead of the device: network_gradient() waits until the labels
 * of the batch this many before it are copied. */
#define NETWORK_AHEAD 4

struct network;

/* `layout` (of the same shape) and `kernel` are borrowed until network_free(). ERROR_USAGE if the
 * options contradict each other or exceed a limit. */
enum error network_new(const struct model_options *options, const struct model_layout *layout,
                       struct kernel *kernel, struct network **ret_network) MUST_CHECK;
void network_free(struct network *network);

/* Computes the gradient of the loss of `batch` at values[P] in gradient[P], with dropout, and
 * clipped. ERROR_INPUT if a class is out of range, naming the row of the batch. */
enum error network_gradient(struct network *network, const float *values,
                            const struct model_batch *batch, float *ret_gradient) MUST_CHECK;

/* Enqueues a copy of the score of the latest network_gradient()'s batch to the host. Only the
 * latest one is kept. ERROR_NOT_FOUND if there was no batch yet. */
enum error network_send_score(struct network *network) MUST_CHECK;
/* The score sent last. Waits until it has arrived; there is no wait once NETWORK_AHEAD + 1 more
 * gradients were requested. */
enum error network_take_score(struct network *network, struct model_score *ret_score) MUST_CHECK;

/* Adds a batch to *score. Waits. */
enum error network_evaluate(struct network *network, const float *values,
                            const struct model_batch *batch, struct model_score *score) MUST_CHECK;
/* Copies the outputs of the latest network_evaluate() for its `rows` rows to host memory: logits
 * [rows, L], or the internal y. Waits. */
enum error network_read_outputs(struct network *network, size_t rows,
                                float *ret_outputs) MUST_CHECK;
/* The loss over all scored rows, as the network's loss defines it: sum, or mean over the rows. */
double network_score_loss(const struct network *network, const struct model_score *score);

/* Writes probabilities [rows, L], or y [rows, 1] for linear, to host memory. Waits. */
enum error network_predict(struct network *network, const float *values, const float *features,
                           size_t rows, float *ret_output) MUST_CHECK;

#endif
