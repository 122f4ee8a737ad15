/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10: 128 random bits that are a pure function of a counter and a seed, by integer
 * operations only, so that every processor and GPU gives the same. Salmon, Moraes, Dror, Shaw:
 * Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
 */
#ifndef TRAINER_COMPUTE_PHILOX_H
#define TRAINER_COMPUTE_PHILOX_H

#include <stdint.h>

#define PHILOX_ROUNDS 10
#define PHILOX_FACTOR_0 0xD2511F53
#define PHILOX_FACTOR_1 0xCD9E8D57
#define PHILOX_KEY_0 0x9E3779B9 /* added to the key after each round */
#define PHILOX_KEY_1 0xBB67AE85

#if defined(__CUDACC__)
#define PHILOX_FUNCTION static inline __host__ __device__
#else
#define PHILOX_FUNCTION static inline
#endif

struct philox_block {
    uint32_t word[4];
};

PHILOX_FUNCTION struct philox_block philox(struct philox_block counter, uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)PHILOX_FACTOR_0 * counter.word[0];
        uint64_t product1 = (uint64_t)PHILOX_FACTOR_1 * counter.word[2];
        struct philox_block next = {
            {(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
             (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
        counter = next;
        key0 += PHILOX_KEY_0;
        key1 += PHILOX_KEY_1;
    }
    return counter;
}

#endif
