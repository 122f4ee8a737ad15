/* SPDX-License-Identifier: MIT */
/*
 * What the files of the emulated GPUs know of each other. One lock guards all of it: every call of
 * the runtime takes it when it begins and releases it when it ends, and work runs while it is held.
 */
#ifndef TESTS_CUDA_EMULATOR_H
#define TESTS_CUDA_EMULATOR_H

#include <stdbool.h>

#include "cuda_runtime_api.h"

#define EMULATED_GPUS 2
#define EMULATED_GPU_BYTES ((size_t)4 << 30)
#define EMULATED_GARBAGE 0xa5 /* as floats it is tiny and negative, as integers huge */

/* Says what the program did wrong where CUDA would go wrong silently, and aborts. */
void emulated_abort(const char *what) __attribute__((noreturn));

/* ---- calls: device.c ---------------------------------------------------- */

/* Takes the lock; what the call must return, if not cudaSuccess: `failure` where EMULATED_GPU_FAILS
 * wants this call to fail, or the error that the current GPU is stuck in. */
cudaError_t emulated_begin(cudaError_t failure);
/* As emulated_begin(), for what a program calls while it cleans up: nothing makes it fail. */
void emulated_begin_cleanup(void);
/* Releases the lock and returns `error`, as the thread's cudaGetLastError() then will. */
cudaError_t emulated_end(cudaError_t error);

int emulated_current(void);
/* Is this what EMULATED_GPU_FAILS says? */
bool emulated_is_planned(const char *what);
/* The error of work that failed: every later call for this GPU returns it. */
cudaError_t emulated_stuck(int device);
/* Before each piece of work: false when this one or one before it failed. */
bool emulated_may_work(int device);

/* ---- memory: memory.c --------------------------------------------------- */

/* Lets this process touch this GPU's memory alone; -1: none, as between pieces of work. */
void emulated_reach(int device);
/* Does [memory, memory + bytes) lie in one allocation that work of this GPU may use? */
bool emulated_is_reachable(const void *memory, size_t bytes, int device);
/* How many were not freed. */
size_t emulated_allocations(void);

/* ---- captures: captures.c ---------------------------------------------- */

struct emulated_capture;
/* Of what no capture may hold, when the current thread captures: the capture is spoilt, and the call
 * returns `error`. cudaSuccess: it captures nothing. */
cudaError_t emulated_refuse(cudaError_t error);
/* The same for who waits for all that a GPU does: nobody may while something is captured there. */
cudaError_t emulated_refuse_device(int device);
/* Takes work down that a capturing stream is given. */
void emulated_record(struct emulated_capture *capture, void (*work)(void *closure),
                     const void *closure, size_t closure_bytes);
/* May the current thread give that stream work? */
cudaError_t emulated_may_enqueue(const struct CUstream_st *stream);
/* How many were not destroyed. */
size_t emulated_graphs(void);

/* ---- streams: streams.c ------------------------------------------------- */

/* The current GPU's default stream for NULL; NULL for what is no stream. */
struct CUstream_st *emulated_stream(cudaStream_t handle);
int emulated_stream_device(const struct CUstream_st *stream);
/* What it is given is recorded there; NULL: it is work to do. */
struct emulated_capture *emulated_stream_capture(const struct CUstream_st *stream);
void emulated_stream_divert(struct CUstream_st *stream, struct emulated_capture *capture);
/* work(closure) after all that the stream has to do; the closure is copied. Under the lock. */
void emulated_enqueue(struct CUstream_st *stream, void (*work)(void *closure), const void *closure,
                      size_t closure_bytes);
/* Does all that it has to do, and what that waits for. */
void emulated_run(struct CUstream_st *stream);
/* Does all that is to be done on this GPU. */
void emulated_run_device(int device);
/* How many streams and events were not destroyed. */
size_t emulated_handles(void);

/* A whole call, but for cudaGetLastError(): work of a launch, or of a library, which knows the
 * runtime by its streams alone and has errors of its own. The stream must be one of the current
 * GPU, the memory such that its work may use it. */
struct emulated_stream_head {
    cudaError_t (*submit)(cudaStream_t stream, void (*work)(void *closure), const void *closure,
                          size_t closure_bytes, const void *const *pointers, size_t pointer_count);
    bool (*is_current)(cudaStream_t stream);
    bool (*is_capturing)(cudaStream_t stream);
};

/* What a library asks of the runtime before it is given a stream. The runtime is linked statically
 * and a library loaded by itself: the address of this is in the environment, as %llx. */
#define EMULATED_RUNTIME "EMULATED_GPU_RUNTIME"
struct emulated_runtime {
    int (*physical_gpu)(void); /* the calling thread's, whatever CUDA_VISIBLE_DEVICES calls it */
};

cudaError_t emulated_submit(cudaStream_t stream, void (*work)(void *closure), const void *closure,
                            size_t closure_bytes, const void *const *pointers,
                            size_t pointer_count);

#endif
