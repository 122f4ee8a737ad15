/* SPDX-License-Identifier: MIT */
/* The implementations of trainer/compute/kernel.h; internal to kernel*.c and kernel*_cuda.cu. */
#ifndef TRAINER_COMPUTE_KERNEL_VARIANTS_H
#define TRAINER_COMPUTE_KERNEL_VARIANTS_H

#include "trainer/compute/kernel.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* As kernel_open(), each for its kind of device; `options` is not NULL. */
enum error kernel_cpu_open(struct device *device, struct device_queue *queue,
                           const struct kernel_options *options,
                           struct kernel **ret_kernel) MUST_CHECK;
enum error kernel_cuda_open(struct device *device, struct device_queue *queue,
                            const struct kernel_options *options,
                            struct kernel **ret_kernel) MUST_CHECK;

/* The CUDA kernel's operations in kernel_graph_cuda.cu. */
enum error kernel_cuda_copy(struct kernel *kernel, const float *from, size_t count,
                            float *to) MUST_CHECK;
enum error kernel_cuda_capture_begin(struct kernel *kernel) MUST_CHECK;
enum error kernel_cuda_capture_end(struct kernel *kernel,
                                   struct kernel_graph **ret_graph) MUST_CHECK;
enum error kernel_cuda_graph_launch(struct kernel *kernel, struct kernel_graph *graph) MUST_CHECK;
void kernel_cuda_graph_free(struct kernel *kernel, struct kernel_graph *graph);

#if defined(__cplusplus)
}
#endif

#endif
