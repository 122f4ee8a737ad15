/* SPDX-License-Identifier: MIT */
#include "loader/column/median_search.h"

#include <stddef.h>
#include <string.h>

#define BIN_BITS 8
#define SIGN UINT32_C(0x80000000)

/* Ascends as the floats do; -0 is 0. */
static uint32_t key_of(float value)
{
    uint32_t bits;
    value += 0.0f;
    memcpy(&bits, &value, sizeof(bits));
    return bits & SIGN ? ~bits : bits | SIGN;
}

static float value_of(uint32_t key)
{
    uint32_t bits = key & SIGN ? key & ~SIGN : ~key;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

void median_search_begin(struct median_search *part, const struct median_search *whole)
{
    memcpy(part->prefix, whole->prefix, sizeof(part->prefix));
    memcpy(part->rank, whole->rank, sizeof(part->rank));
}

void median_search_add(struct median_search *search, unsigned round, float value)
{
    uint32_t key = key_of(value);
    unsigned shift = (MEDIAN_ROUNDS - 1 - round) * BIN_BITS;
    for (size_t i = 0; i < 2; i++) {
        if ((uint64_t)key >> shift >> BIN_BITS == search->prefix[i])
            search->counts[i][key >> shift & (MEDIAN_BINS - 1)]++;
    }
}

void median_search_merge(struct median_search *search, const struct median_search *other)
{
    for (size_t i = 0; i < 2; i++) {
        for (size_t bin = 0; bin < MEDIAN_BINS; bin++)
            search->counts[i][bin] += other->counts[i][bin];
    }
}

void median_search_next(struct median_search *search, unsigned round, uint64_t total)
{
    if (round == 0) {
        search->rank[0] = (total - 1) / 2;
        search->rank[1] = total / 2;
    }
    for (size_t i = 0; i < 2; i++) {
        uint32_t bin = 0;
        while (bin + 1 < MEDIAN_BINS && search->rank[i] >= search->counts[i][bin])
            search->rank[i] -= search->counts[i][bin++];
        search->prefix[i] = search->prefix[i] << BIN_BITS | bin;
    }
    memset(search->counts, 0, sizeof(search->counts));
}

float median_search_value(const struct median_search *search)
{
    double lower = (double)value_of(search->prefix[0]);
    double upper = (double)value_of(search->prefix[1]);
    return (float)(lower + (upper - lower) / 2);
}
