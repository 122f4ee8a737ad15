/* SPDX-License-Identifier: MIT */
/*
 * Inverted dropout: in training, a layer's output is dropped with probability P and otherwise
 * multiplied by 1 / (1 - P); evaluation drops nothing.
 *
 * Whether value i of layer l is dropped in batch K is a pure function of (seed, K, l, i): its word
 * is below 2^32 P. So one process, any number of workers, a GPU and a resumed training drop the
 * same ones. Philox's blocks have four words; sixteen blocks serve 64 values, word w of block b
 * value 16 w + b of them, so that adjacent values come from adjacent blocks.
 */
#ifndef TRAINER_COMPUTE_DROPOUT_H
#define TRAINER_COMPUTE_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/compute/philox.h"

#define DROPOUT_BLOCKS 16 /* that serve adjacent values */
#define DROPOUT_VALUES 64

/* For one layer in one batch; initialized by dropout_mask_init(). */
struct dropout_mask {
    uint64_t seed;
    int64_t batch;
    uint32_t layer;
    uint32_t threshold; /* words below it drop */
    float scale;        /* of the values kept */
};

/* `share` is P, 0 <= P < 1; `seed` is the model's. */
void dropout_mask_init(struct dropout_mask *mask, float share, uint64_t seed, int64_t batch,
                       uint32_t layer);

/* 1 / (1 - share) */
float dropout_scale(float share);

/* Its word w is for value dropout_value(block, w). */
PHILOX_FUNCTION struct philox_block dropout_block(const struct dropout_mask *mask, uint64_t block)
{
    struct philox_block counter = {{(uint32_t)block, (uint32_t)(block >> 32) ^ mask->layer << 16,
                                    (uint32_t)mask->batch, (uint32_t)(mask->batch >> 32)}};
    return philox(counter, mask->seed);
}

PHILOX_FUNCTION size_t dropout_value(uint64_t block, unsigned word)
{
    return (size_t)(block / DROPOUT_BLOCKS * DROPOUT_VALUES + word * DROPOUT_BLOCKS +
                    block % DROPOUT_BLOCKS);
}

#endif
