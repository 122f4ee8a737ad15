/*
 * The part of CUDA's runtime that Tombola uses, on an emulated GPU: so that its CUDA files are
 * compiled by a plain C++ compiler, their kernels run on any machine, and AddressSanitizer sees
 * what they read and write. tests/cuda/toolkit makes a toolkit of it. Names, values and meanings
 * are those of NVIDIA's documentation of the runtime.
 *
 * Like a real one it is asynchronous: a stream does its work in a thread of its own, in order, some
 * of it late. Memory is not cleared. There is one GPU, which CUDA_VISIBLE_DEVICES= hides.
 *
 * What it cannot tell: host code that reads device memory, and how the hardware rounds expf().
 */
#ifndef TESTS_CUDA_RUNTIME_API_H
#define TESTS_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

#ifdef __cplusplus
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
    cudaErrorInvalidResourceHandle = 400
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

enum { cudaHostAllocPortable = 1, cudaStreamNonBlocking = 1 };
enum { cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
};
struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);

cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void *memory);
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

/* ---- launches and what kernels call ------------------------------------- */

struct emulated_size {
    unsigned int x, y, z;
};

/* Runs body(closure) once for each thread of the grid; the closure is copied. */
void emulated_launch(struct emulated_size grid, struct emulated_size block, cudaStream_t stream,
                     void (*body)(void *closure), const void *closure, size_t closure_bytes);
/* To the thread's neighbours in its warp; `gives` goes in, that of lane `of` comes out. */
double emulated_exchange(double gives, unsigned int of);
int emulated_all(int holds);
void emulated_barrier(void);

/* Those of the thread that runs now. */
extern struct emulated_size threadIdx, blockIdx, blockDim, gridDim;

#ifdef __cplusplus
}

struct dim3 : emulated_size {
    dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : emulated_size{x, y, z}
    {
    }
};

/* kernel<<<grid, block, shared, stream>>>(arguments) becomes
 * emulated_kernel(kernel, grid, block, shared, stream)(arguments). */
template <typename... Parameters> struct emulated_configuration {
    void (*kernel)(Parameters...);
    dim3 grid, block;
    cudaStream_t stream;

    void operator()(Parameters... arguments) const
    {
        auto thread = [kernel = kernel, arguments...] { kernel(arguments...); };
        static_assert(std::is_trivially_copyable<decltype(thread)>::value, "goes to a device");
        emulated_launch(
            grid, block, stream, [](void *closure) { (*(decltype(thread) *)closure)(); }, &thread,
            sizeof(thread));
    }
};

template <typename... Parameters>
emulated_configuration<Parameters...> emulated_kernel(void (*kernel)(Parameters...), dim3 grid,
                                                      dim3 block, size_t, cudaStream_t stream)
{
    return {kernel, grid, block, stream};
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

#define EMULATED_WARP 32
inline unsigned int emulated_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % EMULATED_WARP;
}
inline float __shfl_xor_sync(unsigned int, float value, int lanes)
{
    return (float)emulated_exchange(value, emulated_lane() ^ (unsigned int)lanes);
}
inline int __all_sync(unsigned int, int holds)
{
    return emulated_all(holds);
}
inline void __syncthreads()
{
    emulated_barrier();
}
#endif

#endif
