/* SPDX-License-Identifier: MIT */
/*
 * Trainable parameters: `count` values, followed by the optimizer's slots, `count` floats each, and
 * the number of updates; in device memory. All of a model, or the shard of one parameter server: an
 * update treats every element alike.
 *
 * Threads: the kernel's.
 */
#ifndef TRAINER_MODEL_PARAMETERS_H
#define TRAINER_MODEL_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/kernel.h"
#include "trainer/compute/optimizer.h"

struct parameters {
    struct optimizer optimizer;
    struct kernel *kernel; /* borrowed */
    size_t count;
    float *state; /* [count * (1 + S)], device memory: the values, then each slot */
    int64_t step; /* updates so far; Adam's t is one more */
};

/* Zeros, step 0; `count` is at least 1. The caller calls parameters_release() in any case. */
enum error parameters_init(struct parameters *parameters, size_t count,
                           const struct optimizer *optimizer, struct kernel *kernel) MUST_CHECK;
void parameters_release(struct parameters *parameters);

/* Floats of the values and the slots together. */
size_t parameters_state_count(const struct parameters *parameters);

/* One update of all values from gradient[count] in device memory; step + 1. Enqueued. */
enum error parameters_update(struct parameters *parameters, const float *gradient) MUST_CHECK;

/* The same, but changes nothing if *only_if (device memory) is 0 when it runs; step + 1 in any
 * case. */
enum error parameters_update_if(struct parameters *parameters, const float *gradient,
                                const int32_t *only_if) MUST_CHECK;

/* A nonzero part of a gradient: its `count` elements belong to the parameters from `first` on. */
struct gradient_part {
    size_t first, count;
    const float *values; /* [count], device memory */
};
/* The same update if optimizer_keeps(): parameters without a part stay unchanged. */
enum error parameters_update_parts(struct parameters *parameters,
                                   const struct gradient_part parts[], size_t count) MUST_CHECK;

/* Copies values and slots between host memory and the device, and waits; writing also sets the
 * step. */
enum error parameters_read(const struct parameters *parameters, float *ret_state) MUST_CHECK;
enum error parameters_write(struct parameters *parameters, const float *state,
                            int64_t step) MUST_CHECK;

#endif
