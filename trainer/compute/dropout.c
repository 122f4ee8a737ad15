/* SPDX-License-Identifier: MIT */
#include "trainer/compute/dropout.h"

/* Initial parameters (initializer.c) use the seed itself. */
#define SEED_OF_MASKS UINT64_C(0x64726F706F757400)

float dropout_scale(float share)
{
    return (float)(1 / (1 - (double)share));
}

void dropout_mask_init(struct dropout_mask *mask, float share, uint64_t seed, int64_t batch,
                       uint32_t layer)
{
    *mask = (struct dropout_mask){.seed = seed ^ SEED_OF_MASKS,
                                  .batch = batch,
                                  .layer = layer,
                                  .threshold = (uint32_t)((double)share * 0x1p32),
                                  .scale = dropout_scale(share)};
}
