/* SPDX-License-Identifier: MIT */
/*
 * permutation_blocks.inc compiled for AVX-512, for AVX2 and for any processor, and the choice among
 * them.
 */
#include "sampler/shuffle/permutation_kernels.h"
#include "sampler/shuffle/permutation_rounds.h"

static const uint32_t index32[KERNEL_LANES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                               8, 9, 10, 11, 12, 13, 14, 15};
static const uint64_t index64[KERNEL_LANES / 2] = {0, 1, 2, 3, 4, 5, 6, 7};

/* ---- any processor ------------------------------------------------------ */

#define TARGET
#define LANES 4
#define NAME(name) name##_any
#include "sampler/shuffle/permutation_blocks.inc"

static bool supports_any(void)
{
    return true;
}

static const struct permutation_kernel kernel_any = {
    "any processor", supports_any, add_any, describe_any, feistel_any, small_any, NULL};

#if defined(__x86_64__)

/* ---- AVX2 --------------------------------------------------------------- */

#define TARGET __attribute__((target("avx2")))
#define LANES 8
#define NAME(name) name##_avx2
#include "sampler/shuffle/permutation_blocks.inc"

static bool supports_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static const struct permutation_kernel kernel_avx2 = {
    "AVX2", supports_avx2, add_avx2, describe_avx2, feistel_avx2, small_avx2, NULL};

/* ---- AVX-512 ------------------------------------------------------------ */

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define LANES 16
#define NAME(name) name##_avx512
#include "sampler/shuffle/permutation_blocks.inc"

static bool supports_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static const struct permutation_kernel kernel_avx512 = {
    "AVX-512",    supports_avx512,       add_avx512, describe_avx512, feistel_avx512,
    small_avx512, permutation_few_avx512};

const struct permutation_kernel *const permutation_kernels[] = {&kernel_avx512, &kernel_avx2,
                                                                &kernel_any, NULL};
#else
const struct permutation_kernel *const permutation_kernels[] = {&kernel_any, NULL};
#endif

const struct permutation_kernel *permutation_kernel(void)
{
    for (size_t i = 0; permutation_kernels[i]; i++) {
        if (permutation_kernels[i]->is_supported())
            return permutation_kernels[i];
    }
    return &kernel_any;
}
