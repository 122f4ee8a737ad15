/* SPDX-License-Identifier: MIT */
/*
 * Stateless (counter-based) random numbers: a hash of (key, counter), so that any of them can be
 * computed at any time, in any order, by any thread, on any machine. Keys are a hash of everything
 * that determines an order; nothing is ever added to a seed, so that neighbouring seeds and epochs
 * are independent.
 *
 * These functions are a contract: a published order never changes. 64-bit integers only;
 * bit-identical everywhere.
 */
#ifndef SAMPLER_SHUFFLE_RANDOM_H
#define SAMPLER_SHUFFLE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random_key {
    uint64_t first, second;
};

#define RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15) /* 2^64 divided by the golden ratio, odd */

/* A bijection of 64 bits whose every output bit depends on every input bit (the finalizer of
 * Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014, Stafford's mix 13).
 */
static inline uint64_t random_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* The number for `counter`: for a fixed key a bijection of the counters. */
static inline uint64_t random_at(struct random_key key, uint64_t counter)
{
    return random_mix(random_mix(counter * RANDOM_STEP + key.first) ^ key.second);
}

/* A separate key for each `name` (an epoch, a purpose). */
static inline struct random_key random_key_at(struct random_key key, uint64_t name)
{
    uint64_t first = random_at(key, name);
    return (struct random_key){.first = first, .second = random_mix(first + key.second)};
}

/* Uniform on [0, bound), bound >= 1, exactly: D. Lemire, "Fast random integer generation in an
 * interval", 2019. */
static inline uint64_t random_below(struct random_key key, uint64_t counter, uint64_t bound)
{
    uint64_t value = random_at(key, counter);
    unsigned __int128 product = (unsigned __int128)value * bound;
    if (__builtin_expect((uint64_t)product < bound, 0)) {
        uint64_t refused = -bound % bound;
        while ((uint64_t)product < refused) {
            value = random_mix(value + RANDOM_STEP);
            product = (unsigned __int128)value * bound;
        }
    }
    return (uint64_t)(product >> 64);
}

#endif
