/* SPDX-License-Identifier: MIT */
#include "trainer/compute/cpu_loops.h"

#include "trainer/compute/cpu_loops_variants.h"

const struct cpu_loops *cpu_loops_at(size_t index)
{
    const struct cpu_loops *variants[4] = {NULL};
    size_t count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx2 && avx512)
        variants[count++] = &cpu_loops_avx512;
    if (avx2)
        variants[count++] = &cpu_loops_avx2;
#endif
    variants[count++] = &cpu_loops_any;
    return index < count ? variants[index] : NULL;
}

const struct cpu_loops *cpu_loops_best(void)
{
    return cpu_loops_at(0);
}
