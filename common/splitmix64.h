/* SPDX-License-Identifier: MIT */
/*
 * splitmix64 (Steele, Lea, Flood 2014): pseudorandom numbers whose state is the position in the
 * sequence. The numbers of a seed never change: orders and files that they decide are repeatable.
 */
#ifndef COMMON_SPLITMIX64_H
#define COMMON_SPLITMIX64_H

#include <stdint.h>

static inline uint64_t splitmix64_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Below `bound`, 1 to 2^32, uniform up to 2^-32. */
static inline uint32_t splitmix64_below(uint64_t *state, uint64_t bound)
{
    return (uint32_t)((splitmix64_next(state) >> 32) * bound >> 32);
}

#endif
