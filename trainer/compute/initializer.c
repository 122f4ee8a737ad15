/* SPDX-License-Identifier: MIT */
#include "trainer/compute/initializer.h"

#include <math.h>

#include "trainer/compute/philox.h"
#include "trainer/compute/portable_math.h"

/* (0, 1), never an endpoint: its log() is finite. */
static double uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

static double truncated_normal(uint64_t index, uint64_t seed, uint32_t tensor)
{
    for (uint32_t attempt = 0;; attempt++) {
        struct philox_block random = philox(
            (struct philox_block){{(uint32_t)index, (uint32_t)(index >> 32), attempt, tensor}},
            seed);
        double cosine, sine;
        portable_cosine_sine(uniform(random.word[2], random.word[3]), &cosine, &sine);
        double radius = sqrt(-2 * portable_logarithm(uniform(random.word[0], random.word[1])));
        if (fabs(radius * cosine) < 2)
            return radius * cosine;
        if (fabs(radius * sine) < 2)
            return radius * sine;
    }
}

void initializer_truncated_normal(float *out, size_t count, float stddev, uint64_t seed,
                                  uint32_t tensor)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(truncated_normal(i, seed, tensor) * stddev);
}

void initializer_constant(float *out, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}
