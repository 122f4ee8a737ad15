/* SPDX-License-Identifier: MIT */
/*
 * A network: what a model computes from a batch. A chain of dense layers with a loss, forward and
 * backward; the parameter values are borrowed for each call, wherever they live.
 *
 *   linear   y = x w + b                                 one output, squared error
 *   softmax  logits = x sm_w + sm_b                      L classes
 *   mlp      h = relu(x hid_w + hid_b) per hidden layer, then as softmax
 *
 * Values and gradients are flat, P floats in device memory, laid out as model_shape.h says. A call
 * allocates nothing and, unless it says so, does not wait for the device.
 *
 * Threads: one at a time, that of the kernel. Dimensions: B rows a batch, F features, L classes,
 * P parameters.
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
 * the call returns. Exactly one of classes and targets is read (targets by linear). */
struct model_batch {
    int64_t index;         /* K, which decides what dropout drops; of gradients alone */
    size_t rows;           /* 1 to batch_rows */
    const float *features; /* [rows, F], device; NULL: */
    const uint8_t *bytes;  /* [rows, F], device, times scale (kernel_input_bytes()) */
    float scale;
    const int32_t *classes; /* [rows], 0 to L-1, host */
    const float *targets;   /* [rows], host */
};

/* Totals over the batches given to model_evaluate(), which start from zeros, or of one batch. */
struct model_score {
    int64_t rows;    /* 0: none */
    int64_t correct; /* rows whose largest logit (the first of equals) is their class; linear: 0 */
    int64_t moving;  /* rows with a gradient; 0: no parameter has one */
    double loss_sum; /* sum over rows, also for losses that are means */
};

/* How many batches the host may be ahead of the device: network_gradient() waits for the labels of
 * the one so many before it to be copied. */
#define NETWORK_AHEAD 4

struct network;

/* `layout` (of the same shape) and `kernel` are borrowed until network_free(). ERROR_USAGE when the
 * options contradict each other or pass a limit. */
enum error network_new(const struct model_options *options, const struct model_layout *layout,
                       struct kernel *kernel, struct network **ret_network) MUST_CHECK;
void network_free(struct network *network);

/* The gradient of the loss of `batch` at values[P] into gradient[P], with dropout, and clipped.
 * ERROR_INPUT when a class is out of range, naming the row of the batch. */
enum error network_gradient(struct network *network, const float *values,
                            const struct model_batch *batch, float *ret_gradient) MUST_CHECK;

/* Sends the score of the batch of the latest network_gradient() to the host, behind it. The latest
 * one alone is kept. ERROR_NOT_FOUND when there was no batch yet. */
enum error network_send_score(struct network *network) MUST_CHECK;
/* What was sent last. Waits until it is there: it is, without any wait, once
 * NETWORK_AHEAD + 1 more gradients were asked for. */
enum error network_take_score(struct network *network, struct model_score *ret_score) MUST_CHECK;

/* Adds a batch to *score. Waits. */
enum error network_evaluate(struct network *network, const float *values,
                            const struct model_batch *batch, struct model_score *score) MUST_CHECK;
/* What the latest network_evaluate() took its `rows` rows for: logits [rows, L], or y inside, into
 * host memory. Waits. */
enum error network_read_outputs(struct network *network, size_t rows,
                                float *ret_outputs) MUST_CHECK;
/* The loss over all that was scored, as the network's loss defines it: sum, or mean over the
 * rows. */
double network_score_loss(const struct network *network, const struct model_score *score);

/* Probabilities [rows, L], or y [rows, 1] for linear, into host memory. Waits. */
enum error network_predict(struct network *network, const float *values, const float *features,
                           size_t rows, float *ret_output) MUST_CHECK;

#endif
