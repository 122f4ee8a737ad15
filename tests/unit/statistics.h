/* SPDX-License-Identifier: MIT */
/* Chi-square sums and how far they are from what chance gives, for tests of orders. */
#ifndef TESTS_UNIT_STATISTICS_H
#define TESTS_UNIT_STATISTICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* How many standard errors a chi-square of `df` degrees of freedom lies above its mean: by its cube
 * root, which is nearly normal (Wilson and Hilferty, 1931), while chi-square has a long tail. 15 of 3
 * degrees is 2.9 of them and comes once in six hundred times; (chi - df) / sqrt(2 df) would be 4.9.
 */
static inline double statistics_errors(double chi, double df)
{
    double spread = 2 / (9 * df);
    return (cbrt(chi / df) - (1 - spread)) / sqrt(spread);
}

/* Chi-square of `count` counts that should all be equal; df is count - 1. */
static inline double statistics_chi_equal(const uint32_t *counts, size_t count)
{
    double total = 0;
    double chi = 0;
    for (size_t i = 0; i < count; i++)
        total += counts[i];
    double expected = total / (double)count;
    for (size_t i = 0; i < count; i++)
        chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    return chi;
}

/* Chi-square of one batch: counts[h] of B units against B * shares[h]. */
static inline double statistics_chi_batch(const uint32_t *counts, const double *shares,
                                          size_t labels, size_t batch)
{
    double chi = 0;
    for (size_t h = 0; h < labels; h++) {
        double expected = shares[h] * (double)batch;
        chi += ((double)counts[h] - expected) * ((double)counts[h] - expected) / expected;
    }
    return chi;
}

#endif
