/* SPDX-License-Identifier: MIT */
/*
 * The part of CUDA's runtime that Tombola uses, on two emulated GPUs: its CUDA files are compiled
 * by a plain C++ compiler, their kernels run on any machine, and AddressSanitizer sees what they
 * read and write. tests/cuda/toolkit makes a toolkit of it. Names, values and meanings are those of
 * NVIDIA's documentation of the runtime.
 *
 * A real GPU works at any time between a call and the wait for it. These work at the last moment: a
 * stream does what it was given when somebody waits for it, and no more than they wait for, so that
 * a missing wait shows in every run. What is wrong, and a real GPU may let pass, ends the program
 * with a message:
 *   - host code that touches GPU memory, work that touches another GPU's memory or host memory that
 *     is not page-locked
 *   - work that uses memory freed, or no longer registered, after it was enqueued. A real
 *     cudaFree() waits for the GPU, cudaFreeHost() and cudaHostUnregister() promise no wait; here
 *     none waits, and no address is given out twice
 *   - threads of a block, or lanes of a mask, that wait for each other at different places; a lane
 *     outside its own mask, a value from a lane outside it; shared memory above 48 KiB
 *   - a thread that never called cudaSetDevice(): a real one gets the first GPU
 *   - memory, streams, events and graphs that are still there when the program ends
 * A capture (cudaStreamBeginCapture()) records what a stream is given; what none may hold makes it
 * fail, at its end too: waits, memory that is allocated or freed, work of the default stream, copies
 * of host memory that is not page-locked, events. A real one may let some of that pass.
 * Memory, shared memory too, is filled with bytes that are never right.
 *
 * CUDA_VISIBLE_DEVICES hides GPUs ("" both, "0" the second). EMULATED_GPU_FAILS=call:N makes the
 * N-th call from now on fail, work:N the N-th piece of work, cublas:N the N-th call of cuBLAS; with
 * `code` the kernels were compiled for other GPUs, with `old` these have no TF32 and bfloat16, with
 * `capture` nothing can be captured, with `register` no memory registered. An error of work shows in the call that waits for it and in
 * every later one for that GPU, until the variable changes.
 *
 * What it cannot tell: how the hardware rounds expf(), races between blocks, and host code that
 * touches GPU memory just while another thread waits for work on it.
 */
#ifndef TESTS_CUDA_RUNTIME_API_H
#define TESTS_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

#ifdef __cplusplus
#include <cstring>
#include <type_traits>
extern "C" {
#endif

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorIllegalState = 401,
    cudaErrorHostMemoryAlreadyRegistered = 712,
    cudaErrorHostMemoryNotRegistered = 713,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorStreamCaptureImplicit = 906,
    cudaErrorStreamCaptureWrongThread = 908,
    cudaErrorUnknown = 999
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};

enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75 };

enum { cudaHostAllocPortable = 1 };
enum { cudaHostRegisterPortable = 1 };
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

typedef struct CUstream_st *cudaStream_t; /* NULL: the current GPU's default stream */
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t, *cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
};
struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);

cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int flags);
cudaError_t cudaHostUnregister(void *memory);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes);
cudaError_t cudaMemset(void *memory, int value, size_t bytes);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

/* For tests: how many failures EMULATED_GPU_FAILS=call:N and work:N have caused so far; how many
 * waits of the host for work left a stream with nothing to do, as no step of a training should; how
 * many graphs were launched; and on which GPU memory lies. */
long emulated_gpu_failures(void);
long emulated_gpu_drains(void);
long emulated_gpu_graphs(void);
int emulated_gpu_of(const void *memory);

/* ---- launches and what kernels call ------------------------------------- */

struct emulated_size {
    unsigned int x, y, z;
};

/* Runs body(closure) once for each thread of the grid; the closure is copied. `pointers` are the
 * kernel's, or NULL. */
void emulated_launch(struct emulated_size grid, struct emulated_size block, size_t shared_bytes,
                     cudaStream_t stream, void (*body)(void *closure), const void *closure,
                     size_t closure_bytes, const void *const *pointers, size_t pointer_count);

/* Of the lanes in `mask`, which is the calling lane's own too. */
uint64_t emulated_shuffle(unsigned int mask, uint64_t gives, unsigned int from_lane);
unsigned int emulated_ballot(unsigned int mask, int holds);
void emulated_warp_barrier(unsigned int mask);
void emulated_barrier(void);
/* A __shared__ variable, which the emulated nvcc names where it is declared. */
void emulated_shared(void *variable, size_t bytes);

/* Those of the thread that runs now. */
extern struct emulated_size threadIdx, blockIdx, blockDim, gridDim;

#ifdef __cplusplus
}

struct dim3 : emulated_size {
    dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : emulated_size{x, y, z}
    {
    }
};

template <typename Type> const void *emulated_pointer(Type *pointer)
{
    return pointer;
}
template <typename Type> const void *emulated_pointer(const Type &)
{
    return nullptr;
}

/* kernel<<<grid, block, shared, stream>>>(arguments) becomes
 * emulated_kernel(kernel, grid, block, shared, stream)(arguments). */
template <typename... Parameters> struct emulated_configuration {
    void (*kernel)(Parameters...);
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;

    void operator()(Parameters... arguments) const
    {
        auto thread = [kernel = kernel, arguments...] { kernel(arguments...); };
        static_assert(std::is_trivially_copyable<decltype(thread)>::value, "goes to a device");
        const void *pointers[] = {emulated_pointer(arguments)...};
        emulated_launch(
            grid, block, shared_bytes, stream,
            [](void *closure) { (*(decltype(thread) *)closure)(); }, &thread, sizeof(thread),
            pointers, sizeof...(arguments));
    }
};

template <typename... Parameters>
emulated_configuration<Parameters...> emulated_kernel(void (*kernel)(Parameters...), dim3 grid,
                                                      dim3 block, size_t shared_bytes = 0,
                                                      cudaStream_t stream = nullptr)
{
    return {kernel, grid, block, shared_bytes, stream};
}

#define __global__
#define __device__
#define __shared__ static /* one block runs at a time */

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(4) uchar4 {
    unsigned char x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

/* Rounded one by one: the emulated nvcc contracts nothing. */
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fsqrt_rn(float a)
{
    return __builtin_sqrtf(a);
}

#define EMULATED_WARP 32u
inline unsigned int emulated_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % EMULATED_WARP;
}
template <typename Type> Type __shfl_sync(unsigned int mask, Type value, int lane)
{
    static_assert(std::is_arithmetic<Type>::value && sizeof(Type) <= 8, "as CUDA's");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(value));
    bits = emulated_shuffle(mask, bits, (unsigned int)lane % EMULATED_WARP);
    memcpy(&value, &bits, sizeof(value));
    return value;
}
template <typename Type> Type __shfl_xor_sync(unsigned int mask, Type value, int lanes)
{
    return __shfl_sync(mask, value, (int)(emulated_lane() ^ (unsigned int)lanes));
}
template <typename Type> Type __shfl_down_sync(unsigned int mask, Type value, unsigned int lanes)
{
    unsigned int lane = emulated_lane(), of = lane + lanes;
    return __shfl_sync(mask, value, (int)(of < EMULATED_WARP ? of : lane));
}
template <typename Type> Type __shfl_up_sync(unsigned int mask, Type value, unsigned int lanes)
{
    unsigned int lane = emulated_lane();
    return __shfl_sync(mask, value, (int)(lanes <= lane ? lane - lanes : lane));
}
inline unsigned int __ballot_sync(unsigned int mask, int holds)
{
    return emulated_ballot(mask, holds);
}
inline int __all_sync(unsigned int mask, int holds)
{
    return emulated_ballot(mask, !holds) == 0;
}
inline int __any_sync(unsigned int mask, int holds)
{
    return emulated_ballot(mask, holds) != 0;
}
inline void __syncwarp(unsigned int mask = 0xffffffffu)
{
    emulated_warp_barrier(mask);
}
inline void __syncthreads()
{
    emulated_barrier();
}
#endif

#endif
