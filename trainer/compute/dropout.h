/* SPDX-License-Identifier: MIT */
/*
 * Dropout, inverted: while it trains, a layer's output is dropped with probability P and else
 * multiplied with 1 / (1 - P); where a model is evaluated nothing is.
 *
 * Whether value i of layer l is dropped in batch K is a pure function of (seed, K, l, i): word i
 * mod 4 of Philox's block i / 4 is below 2^32 P. So one process, any number of workers, a GPU and a
 * training that goes on from a checkpoint drop the same ones.
 */
#ifndef TRAINER_COMPUTE_DROPOUT_H
#define TRAINER_COMPUTE_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/compute/philox.h"

/* One layer's in one batch; dropout_mask_init() makes it. */
struct dropout_mask {
    uint64_t seed;
    int64_t batch;
    uint32_t layer;
    uint32_t threshold; /* words below it drop */
    float scale;        /* of what is kept */
};

/* `share` is P, from 0 to below 1; `seed` the model's. */
void dropout_mask_init(struct dropout_mask *mask, float share, uint64_t seed, int64_t batch,
                       uint32_t layer);

/* 1 / (1 - share) */
float dropout_scale(float share);

/* values[count], on the host. */
void dropout_apply(const struct dropout_mask *mask, float *values, size_t count);

/* The random words of values 4 block to 4 block + 3. */
PHILOX_FUNCTION struct philox_block dropout_block(const struct dropout_mask *mask, uint64_t block)
{
    struct philox_block counter = {{(uint32_t)block, (uint32_t)(block >> 32) ^ mask->layer << 16,
                                    (uint32_t)mask->batch, (uint32_t)(mask->batch >> 32)}};
    return philox(counter, mask->seed);
}

#endif
