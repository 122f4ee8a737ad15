/* SPDX-License-Identifier: MIT */
/*
 * The inner loops of the CPU kernel, compiled once per vector instruction set (source:
 * cpu_loops.inc) and chosen at program start, so that one binary is fast on every machine.
 *
 * Element-wise loops give the same bits in every variant: additions, multiplications, divisions and
 * square roots, rounded individually. The products use fused multiply-add if the CPU has it, so
 * they may differ in the last bit between variants.
 *
 * Matrices are row-major without padding. Nothing outside them is read. Dimensions: B rows, I
 * inputs, O outputs, C columns.
 */
#ifndef TRAINER_COMPUTE_CPU_LOOPS_H
#define TRAINER_COMPUTE_CPU_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/compute/dropout.h"
#include "trainer/compute/optimizer.h"
#include "trainer/compute/sparse_batch.h"

struct cpu_loops {
    const char *name;      /* "AVX-512" */
    unsigned worth_fifths; /* of a batch that may be nonzero: beyond, BLAS is faster (README.md) */

    /* Bit c of ret_bits[w * rows + b]: values[b * stride + 64 w + c] is not zero. Returns how many
     * are not. */
    size_t (*index_floats)(const float *values, size_t rows, size_t columns, size_t stride,
                           uint64_t *ret_bits);
    size_t (*index_bytes)(const uint8_t *bytes, size_t rows, size_t columns, size_t stride,
                          uint64_t *ret_bits);

    /* y[B,O] += x[B,I] w[I,O], of the part's inputs */
    void (*multiply)(const struct sparse_batch *x, const struct sparse_part *part,
                     const float *weights, size_t outputs, float *y);
    /* dw[I,O] = x[B,I]^T dy[B,O], the part's inputs; x indexed by columns */
    void (*multiply_transposed)(const struct sparse_batch *x, const struct sparse_part *part,
                                const float *y_gradient, size_t outputs,
                                float *ret_weights_gradient);

    /* y[B,C] = relu(y + bias[C]); NULL: no bias; relu keeps NaN. */
    void (*finish_rows)(float *y, size_t rows, size_t columns, const float *bias, bool relu);
    /* y[C] = (x[C] - mean[C]) * factor[C]; y may be x */
    void (*standardize)(const float *x, const float *mean, const float *factor, size_t columns,
                        float *y);
    /* sums[C] = the sum of each column, from the first row to the last */
    void (*sum_columns)(const float *values, size_t rows, size_t columns, float *ret_sums);
    /* sums[i] += x[i]; y[i] /= divisor */
    void (*add)(float *sums, const float *x, size_t count);
    void (*divide)(float *y, float divisor, size_t count);
    /* y[i] *= factor; y[i] within -limit and limit, NaN stays */
    void (*scale)(float *y, float factor, size_t count);
    void (*clamp)(float *y, float limit, size_t count);
    /* ret[i] = x[i] + factor y[i] */
    void (*add_multiple)(const float *x, float factor, const float *y, size_t count, float *ret);
    /* Drops values (dropout.h) and scales the others. */
    void (*drop)(const struct dropout_mask *mask, float *values, size_t count);
    /* The sum of x[i]^2 in double: 16 sums of every 16th element, then these in order. The same
     * bits in every variant. */
    double (*sum_squares)(const float *x, size_t count);
    /* gradient[i] = 0 if x[i] is not positive */
    void (*mask_positive)(float *gradient, const float *x, size_t count);

    /* values[i] = exp(values[i]) for values of at most 0, within 2 units of the last place; below
     * -87: 0. Additions and multiplications only: the same bits in every variant. */
    void (*exponentials)(float *values, size_t count);

    /* One update (trainer/compute/optimizer.h) of `count` parameters at optimizer_rate(). */
    void (*sgd)(const struct optimizer *optimizer, float rate, size_t count, const float *gradient,
                float *parameters, float *const slots[OPTIMIZER_SLOTS_LIMIT]);
    void (*momentum)(const struct optimizer *optimizer, float rate, size_t count,
                     const float *gradient, float *parameters,
                     float *const slots[OPTIMIZER_SLOTS_LIMIT]);
    void (*adagrad)(const struct optimizer *optimizer, float rate, size_t count,
                    const float *gradient, float *parameters,
                    float *const slots[OPTIMIZER_SLOTS_LIMIT]);
    void (*adam)(const struct optimizer *optimizer, float rate, size_t count, const float *gradient,
                 float *parameters, float *const slots[OPTIMIZER_SLOTS_LIMIT]);
};

/* The best variant that this CPU supports. */
const struct cpu_loops *cpu_loops_best(void);

/* The variants that this CPU supports, the best first; NULL from their number on. */
const struct cpu_loops *cpu_loops_at(size_t index);

#endif
