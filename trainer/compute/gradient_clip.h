/* SPDX-License-Identifier: MIT */
/*
 * Gradient clipping: limits the gradient of a batch. In a cluster each worker clips its batch's
 * gradient before pushing it.
 *
 *   norm    g *= norm / |g| where |g|, the root of the sum of squares over all parameters, is above
 *           `norm`: tf.clip_by_global_norm, torch.nn.utils.clip_grad_norm_ (which adds 1e-6 to |g|)
 *   value   every element is brought within -value and value: torch.nn.utils.clip_grad_value_
 *
 * A gradient whose norm is not finite stays unchanged, so that divergence is visible.
 */
#ifndef TRAINER_COMPUTE_GRADIENT_CLIP_H
#define TRAINER_COMPUTE_GRADIENT_CLIP_H

#include <stdbool.h>

#include "common/error.h"

/* 0: off. */
struct gradient_clip {
    float norm, value;
};

static inline bool gradient_clip_is_on(const struct gradient_clip *clip)
{
    return clip->norm > 0 || clip->value > 0;
}

/* ERROR_USAGE naming a value that is out of its range. */
enum error gradient_clip_check(const struct gradient_clip *clip) MUST_CHECK;

/* The factor for a gradient with this sum of squares; 1: unchanged. */
float gradient_clip_factor(const struct gradient_clip *clip, double squares);

#endif
