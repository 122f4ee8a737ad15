/* SPDX-License-Identifier: MIT */
/*
 * Initial parameters from a counter-based generator (Philox4x32-10): element i of a tensor is a
 * pure function of (seed, tensor, i). Only IEEE additions, multiplications, divisions and square
 * roots are used, so the bits are the same on every machine, whatever its math library.
 */
#ifndef TRAINER_COMPUTE_INITIALIZER_H
#define TRAINER_COMPUTE_INITIALIZER_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = stddev * z, z normal with |z| < 2: Box-Muller pairs, redrawing values outside. The
 * variance is 0.774 stddev^2. `tensor` numbers the tensors of one model. */
void initializer_truncated_normal(float *out, size_t count, float stddev, uint64_t seed,
                                  uint32_t tensor);

/* out[i] = value */
void initializer_constant(float *out, size_t count, float value);

#endif
