/* SPDX-License-Identifier: MIT */
#include "sampler/design/weight_sums.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

#define MANTISSA_BITS 53
#define EXPONENT_BIAS 1075 /* a double is mantissa * 2^(exponent - 1075) */
#define LEFT_BITS 100      /* at least, of the sum without the certain units */

static const char memory[] = "the sums of the units' weights";

/* ---- one weight --------------------------------------------------------- */

/* A finite weight of at least 0 as mantissa * 2^*ret_exponent, from its bits. */
static uint64_t mantissa_of(double number, int *ret_exponent)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    *ret_exponent = (exponent > 0 ? exponent : 1) - EXPONENT_BIAS;
    return exponent > 0 ? mantissa | UINT64_C(1) << 52 : mantissa;
}

static inline weight fixed(double number, int scale)
{
    int exponent;
    uint64_t mantissa = mantissa_of(number, &exponent);
    int shift = exponent + scale;
    if (mantissa == 0)
        return 0;
    if (shift >= 0)
        return (weight)mantissa << shift;
    uint64_t value = shift > -64 ? mantissa >> -shift : 0;
    return value > 0 ? value : 1;
}

static inline weight drawn_weight(const struct weight_sums *sums, int64_t row)
{
    return weight_sums_is_certain(sums, row) ? 0 : fixed(sums->weights[row], sums->scale);
}

weight weight_of(const struct weight_sums *sums, int64_t row)
{
    return drawn_weight(sums, row);
}

/* ---- reading the column ------------------------------------------------- */

/* Checks all; *ret_largest: the largest one, *ret_some: number of those above 0. */
static enum error look_through(const struct frame *frame, double *ret_largest, int64_t *ret_some)
{
    const double *weights = frame_weights(frame);
    double largest = 0;
    int64_t some = 0;
    for (int64_t row = 0; row < frame_units(frame); row++) {
        if (!(weights[row] >= 0) || isinf(weights[row]))
            return error_set(ERROR_INPUT,
                             "the weight of id %" PRId64 " is %g; right is a number of at least 0",
                             frame_id(frame, row), weights[row]);
        if (weights[row] > largest)
            largest = weights[row];
        some += weights[row] > 0;
    }
    *ret_largest = largest;
    *ret_some = some;
    return OK;
}

static unsigned bits_of(weight value)
{
    unsigned bits = 0;
    while (bits < 128 && value >> bits != 0)
        bits++;
    return bits;
}

static weight sum_drawn(const struct weight_sums *sums)
{
    weight sum = 0;
    for (int64_t row = 0; row < sums->units; row++)
        sum += drawn_weight(sums, row);
    return sum;
}

/* Starts at a scale at which N times the largest drawn weight fits, and ends at the one that uses
 * all bits. (Truncated weights may round to slightly more; there is room for it.) */
static void choose_scale(struct weight_sums *sums, double largest)
{
    int exponent;
    (void)mantissa_of(largest, &exponent);
    int unit_bits = (int)bits_of((weight)(uint64_t)sums->units);
    sums->scale = WEIGHT_BITS - MANTISSA_BITS - unit_bits - exponent;
    sums->scale += WEIGHT_BITS - (int)bits_of(sum_drawn(sums));
}

/* ---- certain units ------------------------------------------------------ */

/* Makes units of at least `limit` certain; returns their sum, and the largest of the others. */
static weight take_certain(struct weight_sums *sums, weight limit, double *ret_largest)
{
    weight sum = 0;
    double least = sums->certain;
    double largest = 0;
    for (int64_t row = 0; row < sums->units; row++) {
        double number = sums->weights[row];
        weight own = drawn_weight(sums, row);
        if (own >= limit) {
            sum += own;
            sums->certain_units++;
            least = number < least ? number : least;
        } else if (own > 0 && number > largest) {
            largest = number;
        }
    }
    sums->certain = least;
    *ret_largest = largest;
    return sum;
}

/* Without those that are certain, others may be. If they have nearly all of the weight, what is
 * left gets a scale of its own, before it has too few bits. */
static void find_certain(struct weight_sums *sums, int64_t size, int64_t some)
{
    weight left = sum_drawn(sums);
    weight taken = 1;
    if (size == some) {
        sums->certain = DBL_TRUE_MIN;
        sums->certain_units = some;
        return;
    }
    while (taken > 0) {
        uint64_t wanted = (uint64_t)(size - sums->certain_units);
        double largest;
        taken = take_certain(sums, left / wanted + (left % wanted != 0), &largest);
        left -= taken;
        if (bits_of(left) < LEFT_BITS) {
            choose_scale(sums, largest);
            left = sum_drawn(sums);
        }
    }
}

/* ---- sums --------------------------------------------------------------- */

static enum error allocate(struct weight_sums *sums)
{
    sums->blocks = (sums->units + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    if (sums->blocks >= UINT32_MAX)
        return error_set(ERROR_USAGE, "design weighted takes at most %" PRId64 " units",
                         (int64_t)UINT32_MAX * WEIGHT_BLOCK);
    size_t blocks = (size_t)sums->blocks;
    while (blocks >> sums->guide_bits > 1)
        sums->guide_bits++;
    sums->before = array_new(blocks + 1, sizeof(*sums->before), memory);
    sums->guide = array_new(((size_t)1 << sums->guide_bits) + 1, sizeof(*sums->guide), memory);
    if (sums->certain_units > 0)
        sums->certain_before = array_new(blocks + 1, sizeof(*sums->certain_before), memory);
    bool complete =
        sums->before && sums->guide && (sums->certain_units == 0 || sums->certain_before);
    return complete ? OK : ERROR_MEMORY;
}

static void sum_blocks(struct weight_sums *sums)
{
    for (int64_t block = 0; block < sums->blocks; block++) {
        int64_t row = block * WEIGHT_BLOCK;
        int64_t end = row + WEIGHT_BLOCK < sums->units ? row + WEIGHT_BLOCK : sums->units;
        weight sum = 0;
        int64_t certain = 0;
        for (; row < end; row++) {
            sum += drawn_weight(sums, row);
            if (sums->certain_before)
                certain += weight_sums_is_certain(sums, row);
        }
        sums->before[block + 1] = sums->before[block] + sum;
        if (sums->certain_before)
            sums->certain_before[block + 1] = sums->certain_before[block] + certain;
    }
    sums->total = sums->before[sums->blocks];
}

static size_t part_of(const struct weight_sums *sums, weight point)
{
    unsigned shift = sums->total_bits > sums->guide_bits ? sums->total_bits - sums->guide_bits : 0;
    return (size_t)(point >> shift);
}

/* guide[part]: the last block that begins at or before the part's first point. */
static void make_guide(struct weight_sums *sums)
{
    size_t parts = ((size_t)1 << sums->guide_bits) + 1;
    unsigned shift = sums->total_bits > sums->guide_bits ? sums->total_bits - sums->guide_bits : 0;
    uint32_t block = 0;
    for (size_t part = 0; part < parts; part++) {
        weight point = (weight)part << shift;
        while ((int64_t)block + 1 < sums->blocks && sums->before[block + 1] <= point)
            block++;
        sums->guide[part] = block;
    }
}

static enum error init(struct weight_sums *sums, const struct frame *frame, int64_t size)
{
    double largest = 0;
    int64_t some = 0;
    enum error error = look_through(frame, &largest, &some);
    if (error)
        return error;
    if (some == 0 || some < size)
        return error_set(ERROR_USAGE,
                         "only %" PRId64 " of the frame's %" PRId64 " %s a weight above 0%s", some,
                         sums->units, text_plural(sums->units, "unit has", "units have"),
                         size > 0 ? ": size is larger than that" : ": nothing could be drawn");
    choose_scale(sums, largest);
    if (size > 0)
        find_certain(sums, size, some);
    error = allocate(sums);
    if (error)
        return error;
    sum_blocks(sums);
    sums->total_bits = bits_of(sums->total);
    make_guide(sums);
    return OK;
}

enum error weight_sums_init(struct weight_sums *sums, const struct frame *frame, int64_t size)
{
    if (!frame_weights(frame))
        return error_set(ERROR_USAGE, "design weighted needs weights, and the frame has none; name "
                                      "a weight column in the store's URI, as "
                                      "csv:train.csv?weight=COLUMN");
    *sums = (struct weight_sums){
        .weights = frame_weights(frame), .units = frame_units(frame), .certain = INFINITY};
    enum error error = init(sums, frame, size);
    if (error)
        weight_sums_release(sums);
    return error;
}

void weight_sums_release(struct weight_sums *sums)
{
    free(sums->before);
    free(sums->certain_before);
    free(sums->guide);
}

/* ---- questions ---------------------------------------------------------- */

/* The block that contains a point. */
static int64_t find_block(const struct weight_sums *sums, weight point)
{
    size_t part = part_of(sums, point);
    int64_t low = sums->guide[part];
    int64_t high = (int64_t)sums->guide[part + 1] + 1; /* it is in [low, high) */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (sums->before[middle] <= point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Searches from the nearer end of the block. */
static int64_t find_in_block(const struct weight_sums *sums, int64_t block, weight point)
{
    weight left = point - sums->before[block];
    weight right = sums->before[block + 1] - point;
    int64_t row = block * WEIGHT_BLOCK;
    if (left <= right) {
        for (;; row++) {
            weight own = drawn_weight(sums, row);
            if (left < own)
                return row;
            left -= own;
        }
    }
    row = row + WEIGHT_BLOCK < sums->units ? row + WEIGHT_BLOCK : sums->units;
    for (;;) {
        weight own = drawn_weight(sums, --row);
        if (right <= own)
            return row;
        right -= own;
    }
}

/* Prefetches memory well before it is needed: at 1e9 units every step misses every cache. */
void weight_sums_find(const struct weight_sums *sums, const weight *points, size_t count,
                      int64_t *ret_rows)
{
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&sums->guide[part_of(sums, points[i])]);
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&sums->before[sums->guide[part_of(sums, points[i])] + 1]);
    for (size_t i = 0; i < count; i++) {
        ret_rows[i] = find_block(sums, points[i]);
        for (int64_t line = 0; line < WEIGHT_BLOCK; line += 8)
            __builtin_prefetch(&sums->weights[ret_rows[i] * WEIGHT_BLOCK + line]);
    }
    for (size_t i = 0; i < count; i++)
        ret_rows[i] = find_in_block(sums, ret_rows[i], points[i]);
}

weight weight_sums_before(const struct weight_sums *sums, int64_t row)
{
    weight sum = sums->before[row / WEIGHT_BLOCK];
    for (int64_t other = row / WEIGHT_BLOCK * WEIGHT_BLOCK; other < row; other++)
        sum += drawn_weight(sums, other);
    return sum;
}

int64_t weight_sums_certain_row(const struct weight_sums *sums, int64_t c)
{
    int64_t low = 0;
    int64_t high = sums->blocks;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (sums->certain_before[middle] <= c)
            low = middle;
        else
            high = middle;
    }
    int64_t row = low * WEIGHT_BLOCK;
    for (int64_t left = c - sums->certain_before[low];; row++) {
        if (weight_sums_is_certain(sums, row) && left-- == 0)
            return row;
    }
}

int64_t weight_sums_certain_rank(const struct weight_sums *sums, int64_t row)
{
    int64_t rank = sums->certain_before[row / WEIGHT_BLOCK];
    for (int64_t other = row / WEIGHT_BLOCK * WEIGHT_BLOCK; other < row; other++)
        rank += weight_sums_is_certain(sums, other);
    return rank;
}
