/* SPDX-License-Identifier: MIT */
/*
 * Losses and their names. The kernels compute the formulas (trainer/compute/kernel.h).
 *
 *   LOSS_CLIPPED_SUM    -sum over rows of log(min(max(p_k, 1e-10), 1)), p = softmax(logits), k the
 *                       row's class. The gradient to the logits is p - onehot(k), and exactly 0 for
 *                       a dead row, p_k < 1e-10 (the gradient of the clip). The classic MLP.
 *   LOSS_MEAN           mean over rows of log(sum exp(logits)) - logit_k, by the shifted form, no
 *                       clip; gradient (p - onehot(k)) / rows. The classic softmax regression.
 *   LOSS_SQUARED_MEAN   mean over rows of (y - target)^2; gradient 2 (y - target) / rows
 *   LOSS_SQUARED_SUM    the sum; gradient 2 (y - target)
 */
#ifndef TRAINER_COMPUTE_LOSS_H
#define TRAINER_COMPUTE_LOSS_H

#include <stdbool.h>

#include "common/error.h"

enum loss { LOSS_CLIPPED_SUM, LOSS_MEAN, LOSS_SQUARED_MEAN, LOSS_SQUARED_SUM };

#define LOSS_CLIP_MINIMUM 1e-10f

/* Is it divided by the number of rows? */
bool loss_is_mean(enum loss loss);

/* Does it have targets (numbers) rather than classes? */
bool loss_is_squared(enum loss loss);

/* "clipped_sum", "mean", "squared_mean", "squared_sum": for logs and checkpoints. */
const char *loss_name(enum loss loss);

/* The inverse of loss_name(); ERROR_INPUT naming the existing ones. */
enum error loss_by_name(const char *name, enum loss *ret_loss) MUST_CHECK;

#endif
