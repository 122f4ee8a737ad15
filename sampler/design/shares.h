/* SPDX-License-Identifier: MIT */
/*
 * Real numbers as integers of the same proportions, once and for all, so that no floating point
 * decides how draws are shared out.
 *
 * A number is taken as the shortest decimal text that reads back as it: 0.1 is a tenth, and 0.1 to
 * 0.9 is exactly 1 to 9. All are brought to the smallest power of ten among them. Where the sum
 * would pass SHARES_LIMIT, they are scaled down by a power of two instead, and cut; what is above 0
 * stays at least 1. Integer arithmetic throughout.
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

/* shares[i] * sizes[i] (sizes below 2^61), scaled down and cut by the same rule where needed. */
void shares_multiply(uint64_t *shares, const int64_t *sizes, size_t count);

/* An epoch: the least M with M * share >= size for every label with a share, and M parted by
 * largest remainder (ties: the lower label first) into ret_draws[count], each
 * *ret_rounding off M * share at most. ERROR_USAGE naming the label (by its text in
 * `frame`) for which M would reach 2^62. */
enum error shares_allocate(const struct frame *frame, const uint64_t *shares, const int64_t *sizes,
                           uint32_t count, int64_t *ret_draws, double *ret_rounding) MUST_CHECK;

#endif
