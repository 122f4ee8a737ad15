/* SPDX-License-Identifier: MIT */
/*
 * Converts real numbers to integers of the same proportions, so that no floating-point arithmetic
 * decides how draws are allocated.
 *
 * A number means the shortest decimal text that reads back as it: 0.1 is a tenth, and 0.1 to 0.9 is
 * exactly 1 to 9. All are scaled to the smallest power of ten among them. If the sum would exceed
 * SHARES_LIMIT, they are scaled down by a power of two instead, and truncated; positive ones stay
 * at least 1. Integer arithmetic throughout.
 */
#ifndef SAMPLER_DESIGN_SHARES_H
#define SAMPLER_DESIGN_SHARES_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

#define SHARES_LIMIT (UINT64_C(1) << 62)

/* ret_shares[count] of numbers[count], each finite and >= 0, not all 0; their sum is below
 * SHARES_LIMIT + count. */
void shares_of_numbers(const double *numbers, size_t count, uint64_t *ret_shares);

/* shares[i] * sizes[i] (sizes below 2^61), scaled down and truncated by the same rule if needed. */
void shares_multiply(uint64_t *shares, const int64_t *sizes, size_t count);

/* An epoch: the least M with M * share >= size for every label with a share, and M allocated by
 * largest remainder (ties: the lower label first) in ret_draws[count], each at most *ret_rounding
 * from M * share. ERROR_USAGE naming the label (by its text in `frame`) for which M would reach
 * 2^62. */
enum error shares_allocate(const struct frame *frame, const uint64_t *shares, const int64_t *sizes,
                           uint32_t count, int64_t *ret_draws, double *ret_rounding) MUST_CHECK;

#endif
