/* SPDX-License-Identifier: MIT */
/*
 * A device: where batches end up. One of the two interfaces to CUDA (the other is
 * trainer/compute/kernel.h); the CPU is its reference and always available. Chosen by name: "cpu",
 * "cuda", "cuda:1", "auto" (CUDA if build, driver and GPU are there, else CPU; logged).
 *
 * A queue is a CUDA stream: work in one queue runs in order, queues run concurrently. On the CPU
 * everything is done when the call returns, and every event is complete.
 *
 * Threads: a device may be used from any thread; a queue from one thread at a time.
 */
#ifndef LOADER_DEVICE_DEVICE_H
#define LOADER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device_queue; /* a CUDA stream */
struct device_event; /* a CUDA event */

/* Rows anywhere in an array of rows, all in device memory: row i is number places[i]. */
struct device_rows {
    const void *rows;       /* [.., stride_bytes] */
    size_t stride_bytes;    /* from one row to the next; a multiple of the element's size */
    const uint32_t *places; /* [count] */
    size_t count, columns;  /* of bytes, u8 or f32, depending on the function */
};

struct device {
    enum device_kind kind;
    int index;             /* CUDA ordinal */
    char description[160]; /* "NVIDIA H200, 139 GiB, driver 13.0", "CPU" */
    const struct device_ops *ops;
    int keepers; /* in addition to the opener; atomic, in device.c alone */
};

struct device_ops {
    const char *name;
    enum error (*open)(int index, struct device **ret_device) MUST_CHECK;
    void (*close)(struct device *device);
    enum error (*host_new)(struct device *device, size_t bytes, void **ret_memory) MUST_CHECK;
    void (*host_free)(struct device *device, void *memory);
    enum error (*memory_new)(struct device *device, size_t bytes, void **ret_memory) MUST_CHECK;
    void (*memory_free)(struct device *device, void *memory);
    enum error (*queue_new)(struct device *device, struct device_queue **ret_queue) MUST_CHECK;
    enum error (*queue_borrow)(struct device *device, void *native,
                               struct device_queue **ret_queue) MUST_CHECK;
    void (*queue_free)(struct device *device, struct device_queue *queue);
    void *(*queue_native)(struct device_queue *queue);
    enum error (*copy_in)(struct device_queue *queue, void *to_device, const void *from_host,
                          size_t bytes) MUST_CHECK;
    enum error (*copy_out)(struct device_queue *queue, void *to_host, const void *from_device,
                           size_t bytes) MUST_CHECK;
    enum error (*u8_to_f32)(struct device_queue *queue, float *to_device,
                            const uint8_t *from_device, size_t count, float scale) MUST_CHECK;
    enum error (*scale_f32)(struct device_queue *queue, float *to_device, const float *from_device,
                            size_t count, float scale) MUST_CHECK;
    enum error (*normalize_f32)(struct device_queue *queue, float *on_device, size_t rows,
                                size_t columns, const float *mean,
                                const float *deviation) MUST_CHECK;
    enum error (*gather)(struct device_queue *queue, void *to_device,
                         const struct device_rows *from) MUST_CHECK;
    enum error (*gather_u8)(struct device_queue *queue, float *to_device,
                            const struct device_rows *from, float scale, const float *mean,
                            const float *deviation) MUST_CHECK;
    enum error (*gather_f32)(struct device_queue *queue, float *to_device,
                             const struct device_rows *from, const float *mean,
                             const float *deviation) MUST_CHECK;
    enum error (*one_hot)(struct device_queue *queue, void *to_device, const uint32_t *codes,
                          size_t rows, size_t classes, bool as_floats) MUST_CHECK;
    enum error (*memory_left)(struct device *device, uint64_t *ret_bytes) MUST_CHECK;
    enum error (*queue_wait)(struct device_queue *queue) MUST_CHECK;
    enum error (*event_new)(struct device *device, struct device_event **ret_event) MUST_CHECK;
    void (*event_free)(struct device *device, struct device_event *event);
    enum error (*event_record)(struct device_event *event, struct device_queue *queue) MUST_CHECK;
    enum error (*event_wait)(struct device_event *event) MUST_CHECK;
    enum error (*queue_await)(struct device_queue *queue, struct device_event *event) MUST_CHECK;
    int (*choice)(void); /* NULL: threads have no choice */
    void (*choose)(int index);
};

/* The kinds of devices in this build; device_cuda_ops exists only with HAVE_CUDA. */
extern const struct device_ops device_cpu_ops;
extern const struct device_ops device_cuda_ops;

/* ERROR_UNAVAILABLE: "cuda" was requested and something is missing, which the message names (built
 * without CUDA, no driver, no GPU); ERROR_USAGE: unknown name. */
enum error device_open(const char *name, struct device **ret_device) MUST_CHECK;
/* NULL is legal. The device closes when all its keepers have closed it. */
void device_close(struct device *device);
/* For threads that may be left behind: the device stays until an additional device_close(). */
void device_keep(struct device *device);

/* CUDA keeps the current GPU per thread, and every call here changes it. Code on a caller's thread
 * must restore it: device_choice() gets the current one (-1: none) for a device of that name,
 * device_choose() sets it. */
int device_choice(const char *name);
void device_choose(const struct device *device, int choice);

/* Page-locked host memory, zeroed, 4 KiB aligned (plain aligned memory on the CPU). 0 bytes are
 * legal. */
enum error device_host_new(struct device *device, size_t bytes, void **ret_memory) MUST_CHECK;
void device_host_free(struct device *device, void *memory);
/* Device memory, zeroed, at least 256-byte aligned. On the CPU: host memory. */
enum error device_memory_new(struct device *device, size_t bytes, void **ret_memory) MUST_CHECK;
void device_memory_free(struct device *device, void *memory);
/* How much of it is free; 0: unknown. */
enum error device_memory_left(struct device *device, uint64_t *ret_bytes) MUST_CHECK;
/* The same for rows * columns floats. */
enum error device_floats_new(struct device *device, size_t rows, size_t columns,
                             float **ret_floats) MUST_CHECK;

enum error device_queue_new(struct device *device, struct device_queue **ret_queue) MUST_CHECK;
/* Wraps the caller's cudaStream_t (NULL: CUDA's default stream), which must outlive the queue and
 * stays the caller's; ignored on the CPU. */
enum error device_queue_borrow(struct device *device, void *native,
                               struct device_queue **ret_queue) MUST_CHECK;
void device_queue_free(struct device *device, struct device_queue *queue);
/* The cudaStream_t, for libraries such as cuBLAS; NULL on the CPU. */
void *device_queue_native(struct device *device, struct device_queue *queue);

/* Only enqueues: host memory must not change until an event recorded after the copy is complete. */
enum error device_copy_in(struct device *device, struct device_queue *queue, void *to_device,
                          const void *from_host, size_t bytes) MUST_CHECK;
enum error device_copy_out(struct device *device, struct device_queue *queue, void *to_host,
                           const void *from_device, size_t bytes) MUST_CHECK;
/* to[i] = from[i] * scale; both in device memory; bit-equal on every device. */
enum error device_u8_to_f32(struct device *device, struct device_queue *queue, float *to_device,
                            const uint8_t *from_device, size_t count, float scale) MUST_CHECK;
enum error device_scale_f32(struct device *device, struct device_queue *queue, float *to_device,
                            const float *from_device, size_t count, float scale) MUST_CHECK;
/* In place: x[r, c] = (x[r, c] - mean[c]) / deviation[c], each step rounded; all in device memory;
 * bit-equal on every device. */
enum error device_normalize_f32(struct device *device, struct device_queue *queue, float *on_device,
                                size_t rows, size_t columns, const float *mean,
                                const float *deviation) MUST_CHECK;
/* to[i] = row i, columns of bytes. `from` need not outlive the call, the arrays in it must. */
enum error device_gather(struct device *device, struct device_queue *queue, void *to_device,
                         const struct device_rows *from) MUST_CHECK;
/* to[i, c] = row[c] * scale for u8, then normalized as by device_normalize_f32() unless `mean` is
 * NULL; f32 is only normalized, or copied. One pass; the same bits as step by step. */
enum error device_gather_u8(struct device *device, struct device_queue *queue, float *to_device,
                            const struct device_rows *from, float scale, const float *mean,
                            const float *deviation) MUST_CHECK;
enum error device_gather_f32(struct device *device, struct device_queue *queue, float *to_device,
                             const struct device_rows *from, const float *mean,
                             const float *deviation) MUST_CHECK;
/* to[r, c] = 1 if c is codes[r], else 0; [rows, classes] of f32 or u8; all in device memory. A code
 * of `classes` or more gives a row of zeros. */
enum error device_one_hot(struct device *device, struct device_queue *queue, void *to_device,
                          const uint32_t *codes, size_t rows, size_t classes,
                          bool as_floats) MUST_CHECK;
/* Blocks until all work in the queue is done. */
enum error device_queue_wait(struct device *device, struct device_queue *queue) MUST_CHECK;

enum error device_event_new(struct device *device, struct device_event **ret_event) MUST_CHECK;
void device_event_free(struct device *device, struct device_event *event);
/* The event is complete when all work now in `queue` is done. */
enum error device_event_record(struct device *device, struct device_event *event,
                               struct device_queue *queue) MUST_CHECK;
/* device_event_wait() blocks the calling thread until the event; the other makes `queue` wait, not
 * the thread. */
enum error device_event_wait(struct device *device, struct device_event *event) MUST_CHECK;
enum error device_queue_await(struct device *device, struct device_queue *queue,
                              struct device_event *event) MUST_CHECK;

#endif
