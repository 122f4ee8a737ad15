/* SPDX-License-Identifier: MIT */
/* The compiled variants of the loops; internal to cpu_loops*.c. cpu_loops_at() lists those that
 * this CPU supports. */
#ifndef TRAINER_COMPUTE_CPU_LOOPS_VARIANTS_H
#define TRAINER_COMPUTE_CPU_LOOPS_VARIANTS_H

#include "trainer/compute/cpu_loops.h"

extern const struct cpu_loops cpu_loops_any;
#if defined(__x86_64__)
extern const struct cpu_loops cpu_loops_avx2, cpu_loops_avx512;
#endif

#endif
