/* SPDX-License-Identifier: MIT */
/* The implementations of trainer/compute/kernel.h; internal to kernel*.c and kernel_cuda.cu. */
#ifndef TRAINER_COMPUTE_KERNEL_VARIANTS_H
#define TRAINER_COMPUTE_KERNEL_VARIANTS_H

#include "trainer/compute/kernel.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Both as kernel_open(), for a device of their kind; `options` is not NULL. */
enum error kernel_cpu_open(struct device *device, struct device_queue *queue,
                           const struct kernel_options *options,
                           struct kernel **ret_kernel) MUST_CHECK;
enum error kernel_cuda_open(struct device *device, struct device_queue *queue,
                            const struct kernel_options *options,
                            struct kernel **ret_kernel) MUST_CHECK;

#if defined(__cplusplus)
}
#endif

#endif
