/* SPDX-License-Identifier: MIT */
/*
 * random_at(key, p) is mix(mix(p * RANDOM_STEP + key.first) ^ key.second): the inner sum increases
 * by the same number from position to position, so that lanes add instead of multiplying, which
 * leaves two mixes of 64 bits in 8 lanes. 0.5 ns per position with AVX-512. GNU C vectors, no
 * intrinsics: one body, compiled for AVX-512, for AVX2 and for the compiler's default.
 */
#include "sampler/design/bernoulli_trials.h"

#include <stdbool.h>

#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

/* random_mix() of each lane. */
#define MIX(value)                                                            \
    do {                                                                      \
        (value) = ((value) ^ ((value) >> 30)) * UINT64_C(0xbf58476d1ce4e5b9); \
        (value) = ((value) ^ ((value) >> 27)) * UINT64_C(0x94d049bb133111eb); \
        (value) ^= (value) >> 31;                                             \
    } while (0)

/* Successes of first ... first + 8 * vectors - 1: a comparison is -1 in the lanes that succeed. */
INLINE int64_t count_vectors(struct random_key key, uint64_t limit, int64_t first, int64_t vectors)
{
    const lanes steps = {0, 1, 2, 3, 4, 5, 6, 7};
    lanes counter = (steps + (uint64_t)first) * RANDOM_STEP + key.first;
    lanes successes = {0};
    for (int64_t i = 0; i < vectors; i++) {
        lanes value = counter;
        MIX(value);
        value ^= key.second;
        MIX(value);
        successes -= (lanes)(value <= limit);
        counter += LANES * RANDOM_STEP;
    }
    uint64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += successes[i];
    return (int64_t)sum;
}

static int64_t count_any(struct random_key key, uint64_t limit, int64_t first, int64_t vectors)
{
    return count_vectors(key, limit, first, vectors);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static int64_t count_avx2(struct random_key key, uint64_t limit,
                                                          int64_t first, int64_t vectors)
{
    return count_vectors(key, limit, first, vectors);
}

__attribute__((target("avx512f,avx512dq,prefer-vector-width=512"))) static int64_t
count_avx512(struct random_key key, uint64_t limit, int64_t first, int64_t vectors)
{
    return count_vectors(key, limit, first, vectors);
}
#endif

int64_t bernoulli_trials_count(struct random_key key, uint64_t limit, int64_t first, int64_t count)
{
    int64_t vectors = count / LANES;
    int64_t successes;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        successes = count_avx512(key, limit, first, vectors);
    else if (__builtin_cpu_supports("avx2"))
        successes = count_avx2(key, limit, first, vectors);
    else
#endif
        successes = count_any(key, limit, first, vectors);
    for (int64_t p = first + vectors * LANES; p < first + count; p++)
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
