/* SPDX-License-Identifier: MIT */
/*
 * Clipping: how large the gradient of a batch may be. In a cluster each worker clips that of its
 * own batch before it is pushed.
 *
 *   norm    g *= norm / |g| where |g|, the root of the sum of squares over all parameters, is above
 *           `norm`: tf.clip_by_global_norm, torch.nn.utils.clip_grad_norm_ (which adds 1e-6 to |g|)
 *   value   every element is brought within -value and value: torch.nn.utils.clip_grad_value_
 *
 * A gradient whose norm is not finite stays as it is: a training that diverges is to be seen.
 */
#ifndef TRAINER_COMPUTE_GRADIENT_CLIP_H
#define TRAINER_COMPUTE_GRADIENT_CLIP_H

#include <stdbool.h>

#include "common/error.h"

/* 0: not. */
struct gradient_clip {
    float norm, value;
};

static inline bool gradient_clip_is_on(const struct gradient_clip *clip)
{
    return clip->norm > 0 || clip->value > 0;
}

/* ERROR_USAGE when one is out of its range, naming it. */
enum error gradient_clip_check(const struct gradient_clip *clip) MUST_CHECK;

/* What a gradient with this sum of squares is multiplied with; 1: it stays. */
float gradient_clip_factor(const struct gradient_clip *clip, double squares);

#endif
