/* SPDX-License-Identifier: MIT */
/* The loops of the CPU kernel for AVX2 with fused multiply-add: 8 floats per vector. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "trainer/compute/cpu_loops_variants.h"

#define LOOPS_TARGET __attribute__((target("avx2,fma,bmi,popcnt")))
#define LOOPS_NAME "AVX2"
#define LOOPS_TABLE cpu_loops_avx2
#define LANES 8
#define WORTH_FIFTHS 3
#define STRIP_VECTORS 13 /* of 16 registers */

typedef float vector __attribute__((vector_size(32)));
typedef uint32_t lanes __attribute__((vector_size(32)));
typedef uint64_t wide __attribute__((vector_size(32)));

#define VECTOR static inline __attribute__((always_inline)) LOOPS_TARGET

VECTOR __m256i first_lanes(size_t count)
{
    static const int32_t mask[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(mask + LANES - count));
}

VECTOR vector vector_load(const float *from)
{
    return (vector)_mm256_loadu_ps(from);
}

VECTOR vector vector_load_first(const float *from, size_t count)
{
    return (vector)_mm256_maskload_ps(from, first_lanes(count));
}

VECTOR void vector_store(float *to, vector value)
{
    _mm256_storeu_ps(to, (__m256)value);
}

VECTOR void vector_store_first(float *to, size_t count, vector value)
{
    _mm256_maskstore_ps(to, first_lanes(count), (__m256)value);
}

VECTOR vector vector_set(float value)
{
    return (vector)_mm256_set1_ps(value);
}

VECTOR vector vector_multiply_add(vector a, vector b, vector c)
{
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

VECTOR vector vector_square_root(vector value)
{
    return (vector)_mm256_sqrt_ps((__m256)value);
}

VECTOR vector vector_relu(vector value)
{
    /* The second operand wins when one is NaN. */
    return (vector)_mm256_max_ps(_mm256_setzero_ps(), (__m256)value);
}

VECTOR unsigned vector_nonzero_bits(vector value)
{
    return (unsigned)_mm256_movemask_ps(
        _mm256_cmp_ps((__m256)value, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

VECTOR unsigned zero_bytes(const uint8_t *from)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256()));
}

VECTOR uint64_t nonzero_bytes(const uint8_t *from)
{
    return ~((uint64_t)zero_bytes(from + 32) << 32 | zero_bytes(from));
}

VECTOR bool vector_is_clear(vector value)
{
    return _mm256_testz_si256((__m256i)value, (__m256i)value) != 0;
}

VECTOR wide wide_multiply(wide a, wide b)
{
    return (wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#include "trainer/compute/cpu_loops.inc"
#endif
