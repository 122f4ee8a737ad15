/* SPDX-License-Identifier: MIT */
/* The loops of the CPU kernel for any CPU: 4 floats per vector, as in SSE2 and NEON. */
#include <math.h>
#include <string.h>

#include "trainer/compute/cpu_loops_variants.h"

#define LOOPS_TARGET
#define LOOPS_NAME "128 bit"
#define LOOPS_TABLE cpu_loops_any
#define LANES 4
#define WORTH_FIFTHS 2
#define STRIP_VECTORS 13 /* of 16 registers */

typedef float vector __attribute__((vector_size(16)));
typedef uint32_t lanes __attribute__((vector_size(16)));
typedef uint64_t wide __attribute__((vector_size(16)));

static inline vector vector_load(const float *from)
{
    vector value;
    memcpy(&value, from, sizeof(value));
    return value;
}

static inline vector vector_load_first(const float *from, size_t count)
{
    vector value = {0};
    for (size_t i = 0; i < count; i++)
        value[i] = from[i];
    return value;
}

static inline void vector_store(float *to, vector value)
{
    memcpy(to, &value, sizeof(value));
}

static inline void vector_store_first(float *to, size_t count, vector value)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value[i];
}

static inline vector vector_set(float value)
{
    return (vector){value, value, value, value};
}

static inline vector vector_multiply_add(vector a, vector b, vector c)
{
    return a * b + c;
}

static inline vector vector_square_root(vector value)
{
    return (vector){sqrtf(value[0]), sqrtf(value[1]), sqrtf(value[2]), sqrtf(value[3])};
}

static inline vector vector_relu(vector value)
{
    lanes negative = (lanes)(value < (vector){0});
    return (vector)((lanes)value & ~negative);
}

static inline unsigned vector_nonzero_bits(vector value)
{
    lanes bits = (lanes)(value != (vector){0}) & (lanes){1, 2, 4, 8};
    return bits[0] | bits[1] | bits[2] | bits[3];
}

static inline uint64_t nonzero_bytes(const uint8_t *from)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < 64; i++)
        bits |= (uint64_t)(from[i] != 0) << i;
    return bits;
}

static inline bool vector_is_clear(vector value)
{
    lanes bits = (lanes)value;
    return (bits[0] | bits[1] | bits[2] | bits[3]) == 0;
}

static inline wide wide_multiply(wide a, wide b)
{
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
}

#include "trainer/compute/cpu_loops.inc"
