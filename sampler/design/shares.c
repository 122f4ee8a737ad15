/* SPDX-License-Identifier: MIT */
#include "sampler/design/shares.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/decimal.h"
#include "common/text.h"

#define DECIMAL_DIGITS 18 /* a mantissa of 17 digits; powers of ten below 2^63 */

typedef unsigned __int128 wide;

/* ---- as decimals -------------------------------------------------------- */

/* Without trailing zeros in the mantissa. */
static struct decimal decimal_of(double number)
{
    char text[TEXT_REAL_BYTES];
    struct decimal decimal;
    text_of_real(number, text);
    (void)decimal_scan(text, strlen(text), &decimal);
    while (decimal.mantissa % 10 == 0) {
        decimal.mantissa /= 10;
        decimal.exponent++;
    }
    return decimal;
}

static bool scale_decimals(const double *numbers, size_t count, uint64_t *ret_shares)
{
    int smallest = INT_MAX;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] > 0 && decimal_of(numbers[i]).exponent < smallest)
            smallest = decimal_of(numbers[i]).exponent;
    }
    for (size_t i = 0; i < count; i++) {
        ret_shares[i] = 0;
        if (numbers[i] == 0)
            continue;
        struct decimal decimal = decimal_of(numbers[i]);
        wide share = decimal.mantissa;
        if (decimal.exponent - smallest > DECIMAL_DIGITS)
            return false;
        for (int e = smallest; e < decimal.exponent && share < SHARES_LIMIT; e++)
            share *= 10;
        if (share + sum >= SHARES_LIMIT)
            return false;
        sum += (uint64_t)share;
        ret_shares[i] = (uint64_t)share;
    }
    return true;
}

/* ---- by a power of two -------------------------------------------------- */

/* Bits to shift `sum` right until it is below SHARES_LIMIT. */
static unsigned excess_bits(wide sum)
{
    unsigned bits = 0;
    while (sum >> bits >= SHARES_LIMIT)
        bits++;
    return bits;
}

static uint64_t cut(wide value, unsigned bits)
{
    return value == 0 || value >> bits != 0 ? (uint64_t)(value >> bits) : 1;
}

/* A number as an integer, of 93 bits if it has the magnitude of the largest. */
static wide fixed_of(double number, int largest)
{
    int exponent;
    double fraction = frexp(number, &exponent);
    wide value = (wide)(uint64_t)ldexp(fraction, 53) << 40;
    return largest - exponent < 93 ? value >> (largest - exponent) : 0;
}

static void scale_binary(const double *numbers, size_t count, uint64_t *ret_shares)
{
    int largest = INT_MIN;
    wide sum = 0;
    for (size_t i = 0; i < count; i++) {
        int exponent;
        if (numbers[i] > 0 && (frexp(numbers[i], &exponent), exponent > largest))
            largest = exponent;
    }
    for (size_t i = 0; i < count; i++)
        sum += numbers[i] > 0 ? fixed_of(numbers[i], largest) : 0;
    unsigned bits = excess_bits(sum);
    for (size_t i = 0; i < count; i++) {
        ret_shares[i] = numbers[i] > 0 ? cut(fixed_of(numbers[i], largest), bits) : 0;
        if (numbers[i] > 0 && ret_shares[i] == 0)
            ret_shares[i] = 1;
    }
}

void shares_of_numbers(const double *numbers, size_t count, uint64_t *ret_shares)
{
    if (!scale_decimals(numbers, count, ret_shares))
        scale_binary(numbers, count, ret_shares);
}

void shares_multiply(uint64_t *shares, const int64_t *sizes, size_t count)
{
    wide sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (wide)shares[i] * (uint64_t)sizes[i];
    unsigned bits = excess_bits(sum);
    for (size_t i = 0; i < count; i++)
        shares[i] = cut((wide)shares[i] * (uint64_t)sizes[i], bits);
}

/* ---- draws of an epoch -------------------------------------------------- */

static enum error find_positions(const struct frame *frame, const uint64_t *shares,
                                 const int64_t *sizes, uint32_t count, uint64_t *ret_positions)
{
    uint64_t sum = 0;
    uint64_t positions = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += shares[i];
    for (uint32_t i = 0; i < count; i++) {
        if (shares[i] == 0)
            continue;
        wide needed = ((wide)(uint64_t)sizes[i] * sum + shares[i] - 1) / shares[i];
        if (needed >= SHARES_LIMIT)
            return error_set(ERROR_USAGE,
                             "the share of label \"%s\" is so small that an epoch, which walks its "
                             "%" PRId64 " units at least once, would pass 2^62 draws",
                             frame_label_text(frame, i), sizes[i]);
        if ((uint64_t)needed > positions)
            positions = (uint64_t)needed;
    }
    *ret_positions = positions;
    return OK;
}

struct remainder {
    uint64_t rest;
    uint32_t label;
};

static int compare_remainders(const void *a, const void *b)
{
    const struct remainder *x = a;
    const struct remainder *y = b;
    if (x->rest != y->rest)
        return x->rest > y->rest ? -1 : 1;
    return x->label < y->label ? -1 : 1;
}

static void part(uint64_t positions, const uint64_t *shares, uint32_t count,
                 struct remainder *remainders, int64_t *ret_draws, double *ret_rounding)
{
    uint64_t sum = 0;
    uint64_t left = positions;
    for (uint32_t i = 0; i < count; i++)
        sum += shares[i];
    for (uint32_t i = 0; i < count; i++) {
        wide draws = (wide)positions * shares[i];
        ret_draws[i] = (int64_t)(draws / sum);
        remainders[i] = (struct remainder){.rest = (uint64_t)(draws % sum), .label = i};
        left -= (uint64_t)ret_draws[i];
    }
    qsort(remainders, count, sizeof(*remainders), compare_remainders);
    for (uint64_t i = 0; i < left; i++)
        ret_draws[remainders[i].label]++;
    *ret_rounding = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t off = i < left ? sum - remainders[i].rest : remainders[i].rest;
        *ret_rounding = fmax(*ret_rounding, (double)off / (double)sum);
    }
}

enum error shares_allocate(const struct frame *frame, const uint64_t *shares, const int64_t *sizes,
                           uint32_t count, int64_t *ret_draws, double *ret_rounding)
{
    uint64_t positions = 0;
    enum error error = find_positions(frame, shares, sizes, count, &positions);
    if (error)
        return error;
    struct remainder *remainders = array_new(count, sizeof(*remainders), "the labels' shares");
    if (!remainders)
        return ERROR_MEMORY;
    part(positions, shares, count, remainders, ret_draws, ret_rounding);
    free(remainders);
    return OK;
}
