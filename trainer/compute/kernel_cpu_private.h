/* SPDX-License-Identifier: MIT */
/* Shared by kernel_cpu*.c. */
#ifndef TRAINER_COMPUTE_KERNEL_CPU_PRIVATE_H
#define TRAINER_COMPUTE_KERNEL_CPU_PRIVATE_H

#include <stddef.h>

#include "trainer/compute/cpu_loops.h"
#include "trainer/compute/fork_join.h"
#include "trainer/compute/kernel.h"
#include "trainer/compute/sparse_batch.h"

struct kernel_cpu {
    struct kernel kernel; /* must be first */
    const struct cpu_loops *loops;
    struct fork_join *pool;     /* owned */
    struct sparse_batch sparse; /* of the latest input */
    float *sums;                /* scratch of kernel_cpu_forward() */
    size_t sums_limit;
};

static inline struct kernel_cpu *kernel_cpu_of(struct kernel *kernel)
{
    return (struct kernel_cpu *)kernel;
}

/* Into how many parts all threads divide work on `count` elements, at least `least` in each, whose
 * result does not depend on its division. */
static inline unsigned kernel_cpu_parts(const struct kernel_cpu *cpu, size_t count, size_t least)
{
    unsigned parts = fork_join_threads(cpu->pool);
    while (parts > 1 && count / parts < least)
        parts--;
    return parts;
}

/* Into how many blocks of rows a batch's work is divided, of which a row takes as much time as so
 * many multiplications: 1 or more, by these numbers alone. */
unsigned kernel_cpu_blocks(size_t rows, size_t multiplications);

/* The layers' products; struct kernel_ops. */
enum error kernel_cpu_forward(struct kernel *kernel, const struct kernel_input *input,
                              const float *weights, const float *bias, size_t outputs,
                              enum activation activation, float *ret_y) MUST_CHECK;
enum error kernel_cpu_backward(struct kernel *kernel, const struct kernel_input *input,
                               const float *y_gradient, size_t outputs, float *ret_weights_gradient,
                               float *ret_bias_gradient) MUST_CHECK;
enum error kernel_cpu_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                     const float *y_gradient, const float *weights, size_t outputs,
                                     float *ret_input_gradient) MUST_CHECK;

#endif
