/*
 * GNU C vectors, compiled for AVX-512, for AVX2 and for the compiler's default; no intrinsics.
 */
#include "sampler/permutation_kernels.h"
#include "sampler/permutation_rounds.h"

typedef uint32_t lanes __attribute__((vector_size(4 * KERNEL_LANES)));
typedef uint32_t half_lanes __attribute__((vector_size(2 * KERNEL_LANES)));
typedef uint64_t wide_lanes __attribute__((vector_size(4 * KERNEL_LANES))); /* half as many */

union joined {
    lanes all;
    half_lanes half[2];
};

static inline __attribute__((always_inline)) void
feistel_kernel(const struct permutation *permutation, uint64_t *values, size_t count)
{
    unsigned low_bits = permutation->low_bits, high_bits = permutation->high_bits;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1;
    for (size_t i = 0; i < count; i += KERNEL_LANES) {
        wide_lanes *wide = (wide_lanes *)(values + i);
        union joined low, high;
        lanes scratch;
        for (int h = 0; h < 2; h++) {
            low.half[h] = __builtin_convertvector(wide[h] & low_mask, half_lanes);
            high.half[h] = __builtin_convertvector(wide[h] >> low_bits, half_lanes);
        }
        for (unsigned r = 0; r < PERMUTATION_ROUNDS; r += 2) {
            ROUNDS_FEISTEL(low.all, low_bits, high.all, permutation->rounds[r], scratch);
            ROUNDS_FEISTEL(high.all, high_bits, low.all, permutation->rounds[r + 1], scratch);
        }
        for (int h = 0; h < 2; h++)
            wide[h] = __builtin_convertvector(high.half[h], wide_lanes) << low_bits |
                      __builtin_convertvector(low.half[h], wide_lanes);
    }
}

static inline __attribute__((always_inline)) void small_kernel(struct small_block *block)
{
    for (size_t i = 0; i < block->count; i += KERNEL_LANES) {
        lanes value = *(lanes *)(block->value + i), units = *(lanes *)(block->units + i);
        lanes point_key = *(lanes *)(block->point_key + i);
        lanes coin_key = *(lanes *)(block->coin_key + i);
        for (uint32_t round = 0; round < ROUNDS_SMALL; round++) {
            lanes point = ROUNDS_POINT_KEY(point_key, round);
            ROUNDS_HASH(point);
            lanes reflection = ROUNDS_POINT(point, units);
            lanes partner = reflection - value + (units & (lanes)(reflection < value));
            lanes larger = (lanes)(value > partner);
            lanes coin =
                ((value & larger) | (partner & ~larger)) ^ ROUNDS_COIN_KEY(coin_key, round);
            ROUNDS_HASH(coin);
            lanes swap = -(coin >> 31);
            value = (partner & swap) | (value & ~swap);
        }
        *(lanes *)(block->value + i) = value;
    }
}

/* ---- one set of functions an instruction set ---------------------------------------------------
 */
#define DEFINE_KERNEL(suffix, shown, attributes)                                   \
    static attributes void feistel_##suffix(const struct permutation *permutation, \
                                            uint64_t *values, size_t count)        \
    {                                                                              \
        feistel_kernel(permutation, values, count);                                \
    }                                                                              \
    static attributes void small_##suffix(struct small_block *block)               \
    {                                                                              \
        small_kernel(block);                                                       \
    }                                                                              \
    static const struct permutation_kernel kernel_##suffix = {                     \
        .name = (shown),                                                           \
        .is_supported = supports_##suffix,                                         \
        .feistel = feistel_##suffix,                                               \
        .small = small_##suffix,                                                   \
    }

static bool supports_any(void)
{
    return true;
}

DEFINE_KERNEL(any, "any processor", );

#if defined(__x86_64__)
static bool supports_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool supports_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

DEFINE_KERNEL(avx512, "AVX-512", __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))));
DEFINE_KERNEL(avx2, "AVX2", __attribute__((target("avx2"))));

const struct permutation_kernel *const permutation_kernels[] = {&kernel_avx512, &kernel_avx2,
                                                                &kernel_any, NULL};
#else
const struct permutation_kernel *const permutation_kernels[] = {&kernel_any, NULL};
#endif

const struct permutation_kernel *permutation_kernel(void)
{
    const struct permutation_kernel *const *kernel = permutation_kernels;
    while (!(*kernel)->is_supported())
        kernel++;
    return *kernel;
}
