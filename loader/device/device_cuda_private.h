/* SPDX-License-Identifier: MIT */
/* Shared by device_cuda.cu and device_*_cuda.cu: a GPU's calls. Private to them. */
#ifndef LOADER_DEVICE_DEVICE_CUDA_PRIVATE_H
#define LOADER_DEVICE_DEVICE_CUDA_PRIVATE_H

#include "loader/device/device.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define THREADS_A_BLOCK 256
#define BLOCKS_LIMIT 4096

struct device_queue {
    struct device *device;
    struct CUstream_st *stream; /* a cudaStream_t */
    bool borrowed;
};

/* In device_call_cuda.cu. `status`: a cudaError_t, which is reported once. */
enum error device_cuda_fail(const struct device *device, int status, const char *what) MUST_CHECK;
enum error device_cuda_fail_bytes(const struct device *device, int status, const char *what,
                                  size_t bytes) MUST_CHECK;
/* Selects the GPU for this thread. */
enum error device_cuda_enter(const struct device *device) MUST_CHECK;
/* Freeing works without it, but CUDA would then initialize a GPU that this thread never used. */
void device_cuda_enter_to_free(const struct device *device);
/* Blocks for a thread per element, at most BLOCKS_LIMIT: threads stride over the rest. */
unsigned device_cuda_blocks(size_t elements);
bool device_cuda_is_aligned(const void *pointer, size_t bytes);
/* After a launch: a refused kernel, or an error of earlier work. */
enum error device_cuda_launched(const struct device *device, const char *what) MUST_CHECK;

/* In device_values_cuda.cu: a GPU may exist for which this build has no code. */
enum error device_cuda_check_code(struct device *device) MUST_CHECK;

/* The operations: struct device_ops. */
/* In device_memory_cuda.cu. */
enum error device_cuda_host_new(struct device *device, size_t bytes, void **ret_memory) MUST_CHECK;
void device_cuda_host_free(struct device *device, void *memory);
enum error device_cuda_memory_new(struct device *device, size_t bytes,
                                  void **ret_memory) MUST_CHECK;
enum error device_cuda_memory_left(struct device *device, uint64_t *ret_bytes) MUST_CHECK;
void device_cuda_memory_free(struct device *device, void *memory);

/* In device_queue_cuda.cu. */
enum error device_cuda_queue_new(struct device *device, struct device_queue **ret_queue) MUST_CHECK;
enum error device_cuda_queue_borrow(struct device *device, void *native,
                                    struct device_queue **ret_queue) MUST_CHECK;
void device_cuda_queue_free(struct device *device, struct device_queue *queue);
void *device_cuda_queue_native(struct device_queue *queue);
enum error device_cuda_queue_wait(struct device_queue *queue) MUST_CHECK;
enum error device_cuda_copy_in(struct device_queue *queue, void *to_device, const void *from_host,
                               size_t bytes) MUST_CHECK;
enum error device_cuda_copy_out(struct device_queue *queue, void *to_host, const void *from_device,
                                size_t bytes) MUST_CHECK;
enum error device_cuda_event_new(struct device *device, struct device_event **ret_event) MUST_CHECK;
void device_cuda_event_free(struct device *device, struct device_event *event);
enum error device_cuda_event_record(struct device_event *event,
                                    struct device_queue *queue) MUST_CHECK;
enum error device_cuda_event_wait(struct device_event *event) MUST_CHECK;
enum error device_cuda_queue_await(struct device_queue *queue,
                                   struct device_event *event) MUST_CHECK;

/* In device_values_cuda.cu. */
enum error device_cuda_u8_to_f32(struct device_queue *queue, float *to, const uint8_t *from,
                                 size_t count, float scale) MUST_CHECK;
enum error device_cuda_scale_f32(struct device_queue *queue, float *to, const float *from,
                                 size_t count, float scale) MUST_CHECK;
enum error device_cuda_normalize_f32(struct device_queue *queue, float *x, size_t rows,
                                     size_t columns, const float *mean,
                                     const float *deviation) MUST_CHECK;

/* In device_rows_cuda.cu. */
enum error device_cuda_gather(struct device_queue *queue, void *to,
                              const struct device_rows *from) MUST_CHECK;
enum error device_cuda_gather_u8(struct device_queue *queue, float *to,
                                 const struct device_rows *from, float scale, const float *mean,
                                 const float *deviation) MUST_CHECK;
enum error device_cuda_gather_f32(struct device_queue *queue, float *to,
                                  const struct device_rows *from, const float *mean,
                                  const float *deviation) MUST_CHECK;
enum error device_cuda_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                               size_t rows, size_t classes, bool as_floats) MUST_CHECK;

#if defined(__cplusplus)
}
#endif

#endif
