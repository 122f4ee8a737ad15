/* SPDX-License-Identifier: MIT */
/* The loops of the CPU kernel for AVX-512: 16 floats per vector. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "trainer/compute/cpu_loops_variants.h"

#define LOOPS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,bmi,popcnt")))
#define LOOPS_NAME "AVX-512"
#define LOOPS_TABLE cpu_loops_avx512
#define LANES 16
#define WORTH_FIFTHS 2
#define STRIP_VECTORS 8 /* of 32 registers: more would not fit the panel */

typedef float vector __attribute__((vector_size(64)));
typedef uint32_t lanes __attribute__((vector_size(64)));
typedef uint64_t wide __attribute__((vector_size(64)));

#define VECTOR static inline __attribute__((always_inline)) LOOPS_TARGET

VECTOR vector vector_load(const float *from)
{
    return (vector)_mm512_loadu_ps(from);
}

VECTOR vector vector_load_first(const float *from, size_t count)
{
    return (vector)_mm512_maskz_loadu_ps((__mmask16)((1U << count) - 1), from);
}

VECTOR void vector_store(float *to, vector value)
{
    _mm512_storeu_ps(to, (__m512)value);
}

VECTOR void vector_store_first(float *to, size_t count, vector value)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1U << count) - 1), (__m512)value);
}

VECTOR vector vector_set(float value)
{
    return (vector)_mm512_set1_ps(value);
}

VECTOR vector vector_multiply_add(vector a, vector b, vector c)
{
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

VECTOR vector vector_square_root(vector value)
{
    return (vector)_mm512_sqrt_ps((__m512)value);
}

VECTOR vector vector_relu(vector value)
{
    /* The second operand wins when one is NaN. */
    return (vector)_mm512_max_ps(_mm512_setzero_ps(), (__m512)value);
}

VECTOR unsigned vector_nonzero_bits(vector value)
{
    return _mm512_cmp_ps_mask((__m512)value, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

VECTOR uint64_t nonzero_bytes(const uint8_t *from)
{
    __m512i bytes = _mm512_loadu_si512(from);
    return _mm512_test_epi8_mask(bytes, bytes);
}

VECTOR bool vector_is_clear(vector value)
{
    return _mm512_test_epi32_mask((__m512i)value, (__m512i)value) == 0;
}

VECTOR wide wide_multiply(wide a, wide b)
{
    return (wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

#include "trainer/compute/cpu_loops.inc"
#endif
