/* SPDX-License-Identifier: MIT */
/*
 * random_at(key, p) is mix(mix(p * RANDOM_STEP + key.first) ^ key.second): the inner sum increases
 * by the same number from position to position, so that lanes add instead of multiplying, which
 * leaves two mixes of 64 bits: 0.5 ns a position with AVX-512, 1.8 with AVX2. GNU C vectors, no
 * intrinsics: one body, compiled for AVX-512, for AVX2 and for any processor.
 */
#include "sampler/design/bernoulli_trials.h"

/* random_mix() of each lane. */
#define MIX(value)                                                            \
    do {                                                                      \
        (value) = ((value) ^ ((value) >> 30)) * UINT64_C(0xbf58476d1ce4e5b9); \
        (value) = ((value) ^ ((value) >> 27)) * UINT64_C(0x94d049bb133111eb); \
        (value) ^= (value) >> 31;                                             \
    } while (0)

#define TARGET
#define LANES 2
#define NAME(name) name##_any
#include "sampler/design/bernoulli_trials.inc"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define LANES 4
#define NAME(name) name##_avx2
#include "sampler/design/bernoulli_trials.inc"

#define TARGET __attribute__((target("avx512f,avx512dq")))
#define LANES 8
#define NAME(name) name##_avx512
#include "sampler/design/bernoulli_trials.inc"
#endif

int64_t bernoulli_trials_count(struct random_key key, uint64_t limit, int64_t first, int64_t count)
{
    int64_t successes;
    int64_t left;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        successes = count_avx512(key, limit, first, count, &left);
    else if (__builtin_cpu_supports("avx2"))
        successes = count_avx2(key, limit, first, count, &left);
    else
#endif
        successes = count_any(key, limit, first, count, &left);
    for (int64_t p = first + count - left; p < first + count; p++)
        successes += random_at(key, (uint64_t)p) <= limit;
    return successes;
}

uint64_t bernoulli_trials_mask(struct random_key key, uint64_t limit, int64_t first)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < 64; i++)
        mask |= (uint64_t)(random_at(key, (uint64_t)first + i) <= limit) << i;
    return mask;
}
