/* SPDX-License-Identifier: MIT */
#include "loader/column/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LIMB_BITS 32
#define LIMB (INT64_C(1) << LIMB_BITS)
#define LOWEST 149                        /* 2^-149 is bit 0 */
#define PENDING_LIMIT (UINT32_C(1) << 29) /* each adds less than 2^33 to a limb of 63 bits */

/* Brings every limb but the highest into [0, 2^32). */
static void carry(struct exact_sum *sum)
{
    for (size_t i = 0; i + 1 < EXACT_SUM_LIMBS; i++) {
        int64_t low = sum->limbs[i] & (LIMB - 1);
        sum->limbs[i + 1] += (sum->limbs[i] - low) / LIMB;
        sum->limbs[i] = low;
    }
    sum->pending = 0;
}

/* value = mantissa * 2^(bit - 149), split over the two limbs that it reaches. */
void exact_sum_add(struct exact_sum *sum, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t exponent = bits >> 23 & 0xff;
    uint64_t mantissa = bits & 0x7fffff;
    uint32_t bit = exponent > 0 ? exponent - 1 : 0;
    if (exponent > 0)
        mantissa |= 0x800000;
    uint64_t placed = mantissa << bit % LIMB_BITS;
    int64_t sign = bits >> 31 ? -1 : 1;
    sum->limbs[bit / LIMB_BITS] += sign * (int64_t)(placed & (LIMB - 1));
    sum->limbs[bit / LIMB_BITS + 1] += sign * (int64_t)(placed >> LIMB_BITS);
    if (++sum->pending >= PENDING_LIMIT)
        carry(sum);
}

void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other)
{
    struct exact_sum more = *other;
    carry(sum);
    carry(&more);
    for (size_t i = 0; i < EXACT_SUM_LIMBS; i++)
        sum->limbs[i] += more.limbs[i];
    carry(sum);
}

double exact_sum_value(const struct exact_sum *sum)
{
    struct exact_sum whole = *sum;
    double value = 0;
    carry(&whole);
    bool negative = whole.limbs[EXACT_SUM_LIMBS - 1] < 0;
    for (size_t i = 0; i < EXACT_SUM_LIMBS && negative; i++)
        whole.limbs[i] = -whole.limbs[i];
    carry(&whole);
    for (size_t i = EXACT_SUM_LIMBS; i-- > 0;)
        value += ldexp((double)whole.limbs[i], (int)i * LIMB_BITS - LOWEST);
    return negative ? -value : value;
}
