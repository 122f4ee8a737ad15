/* SPDX-License-Identifier: MIT */
/*
 * Guarantees the same bits on every machine with IEEE arithmetic: log, sine and cosine are series
 * written out here (error below 1e-15), because those of math libraries differ in the last bit.
 * Relies on -ffp-contract=off.
 */
#include "trainer/compute/initializer.h"

#include <math.h>

#define PHILOX_ROUNDS 10
#define HALF_PI 1.57079632679489661923
#define LN_2 0.69314718055994530942

struct block {
    uint32_t word[4];
};

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
static struct block philox(struct block counter, uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = UINT64_C(0xD2511F53) * counter.word[0];
        uint64_t product1 = UINT64_C(0xCD9E8D57) * counter.word[2];
        counter = (struct block){
            {(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
             (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    return counter;
}

/* (0, 1), never an end: log() of it is finite. */
static double uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

/* ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2). */
static double natural_logarithm(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int n = 21; n >= 1; n -= 2)
        sum = sum * square + 1.0 / n;
    return exponent * LN_2 + 2 * s * sum;
}

/* cos and sin of `turns` whole turns, by Taylor series within an eighth of a turn. */
static void cosine_sine(double turns, double *ret_cosine, double *ret_sine)
{
    double quarters = turns * 4;
    int quadrant = (int)(quarters + 0.5);
    double angle = (quarters - quadrant) * HALF_PI, square = angle * angle;
    double cosine = 1, sine = 1;
    for (int n = 18; n >= 2; n -= 2) {
        cosine = 1 - cosine * square / (n * (n - 1));
        sine = 1 - sine * square / (n * (n + 1));
    }
    sine *= angle;
    double both[4][2] = {{cosine, sine}, {-sine, cosine}, {-cosine, -sine}, {sine, -cosine}};
    *ret_cosine = both[quadrant & 3][0];
    *ret_sine = both[quadrant & 3][1];
}

static double truncated_normal(uint64_t index, uint64_t seed, uint32_t tensor)
{
    for (uint32_t attempt = 0;; attempt++) {
        struct block random = philox(
            (struct block){{(uint32_t)index, (uint32_t)(index >> 32), attempt, tensor}}, seed);
        double cosine, sine;
        cosine_sine(uniform(random.word[2], random.word[3]), &cosine, &sine);
        double radius = sqrt(-2 * natural_logarithm(uniform(random.word[0], random.word[1])));
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
