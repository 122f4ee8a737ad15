/* SPDX-License-Identifier: MIT */
/*
 * Functions that give the same bits on every machine with IEEE arithmetic: explicit series, because
 * math libraries differ in the last bit. Errors, relative to the result: 2e-15 for the logarithm,
 * 1e-15 for the exponential of -1 to 1 and 1e-13 beyond, 2e-16 times the exponent for the power;
 * 1e-15 for cosine and sine. They rely on -ffp-contract=off.
 */
#ifndef TRAINER_COMPUTE_PORTABLE_MATH_H
#define TRAINER_COMPUTE_PORTABLE_MATH_H

#include <stdint.h>

/* ln x, x > 0. */
double portable_logarithm(double x);

/* e^x; 0 or infinity beyond the range of a double. */
double portable_exponential(double x);

/* base^exponent, exponent >= 0, by repeated squaring. */
double portable_power(double base, int64_t exponent);

/* cos and sin of `turns` whole turns, 0 to 1. */
void portable_cosine_sine(double turns, double *ret_cosine, double *ret_sine);

#endif
