/* SPDX-License-Identifier: MIT */
/*
 * What the emulated GPUs must do, and what they must not let pass: `wrongs NAME` runs one case.
 * Exit status 0: the case went as a real GPU's would; 3: it did not. tests/service's
 * test_emulated_gpu.py says which must end otherwise, and with what message.
 */
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define COUNT 1000
#define BYTES (COUNT * sizeof(float))

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(3);
    }
}
#define MUST(condition) must(condition, #condition)
#define MUST_WORK(call) must((call) == cudaSuccess, #call)

static __global__ void fill(float *to, size_t count, float value)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = value;
}

static float *device_memory()
{
    void *memory;
    MUST_WORK(cudaMalloc(&memory, BYTES));
    return (float *)memory;
}

static float *host_memory()
{
    void *memory;
    MUST_WORK(cudaHostAlloc(&memory, BYTES, cudaHostAllocPortable));
    return (float *)memory;
}

static cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking)
{
    cudaStream_t stream;
    MUST_WORK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static cudaEvent_t new_event()
{
    cudaEvent_t event;
    MUST_WORK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static void launch_fill(float *to, size_t count, float value, cudaStream_t stream)
{
    fill<<<4, 32, 0, stream>>>(to, count, value);
}

static float fetch(const float *from, cudaStream_t stream)
{
    float value;
    MUST_WORK(cudaMemcpyAsync(&value, from, sizeof(value), cudaMemcpyDeviceToHost, stream));
    return value;
}

static void release(float *memory, cudaStream_t stream)
{
    MUST_WORK(cudaFree(memory));
    MUST_WORK(cudaStreamDestroy(stream));
}

/* ---- work is done when somebody waits for it ---------------------------- */

static void late_kernel()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory(), *host = host_memory();
    host[0] = 1;
    launch_fill(memory, COUNT, 5, stream);
    MUST_WORK(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(host[0] == 1);
    MUST_WORK(cudaStreamSynchronize(stream));
    MUST(host[0] == 5 && host[COUNT - 1] == 5);
    MUST_WORK(cudaFreeHost(host));
    release(memory, stream);
}

static void late_memset()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    MUST_WORK(cudaMemset(memory, 0, BYTES));
    MUST(fetch(memory, stream) != 0);
    MUST_WORK(cudaDeviceSynchronize());
    MUST(fetch(memory, stream) == 0);
    release(memory, stream);
}

static void blocking_stream_follows_default()
{
    cudaStream_t stream = new_stream(cudaStreamDefault);
    float *memory = device_memory();
    MUST_WORK(cudaMemset(memory, 0, BYTES));
    MUST(fetch(memory, stream) == 0);
    launch_fill(memory, COUNT, 5, stream);
    MUST(fetch(memory, nullptr) == 5);
    release(memory, stream);
}

static void events_order_streams()
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    float *memory = device_memory();
    launch_fill(memory, COUNT, 5, first);
    MUST_WORK(cudaEventRecord(event, first));
    launch_fill(memory, COUNT, 6, first);
    MUST(fetch(memory, second) != 5);
    MUST_WORK(cudaStreamWaitEvent(second, event, 0));
    MUST(fetch(memory, second) == 5);
    MUST_WORK(cudaEventDestroy(event));
    MUST_WORK(cudaStreamDestroy(first));
    MUST_WORK(cudaDeviceSynchronize());
    MUST(fetch(memory, second) == 6);
    release(memory, second);
}

/* ---- errors ------------------------------------------------------------- */

static void grid_limits()
{
    cudaStream_t stream = new_stream();
    const dim3 grids[] = {dim3(0), dim3(1u << 31), dim3(1, 65536), dim3(1, 1, 65536)};
    const dim3 blocks[] = {dim3(0), dim3(1025), dim3(1, 1025), dim3(1, 1, 65), dim3(32, 33)};
    float *memory = device_memory();
    for (dim3 grid : grids) {
        fill<<<grid, 1, 0, stream>>>(memory, COUNT, 1.0f);
        MUST(cudaGetLastError() == cudaErrorInvalidConfiguration);
    }
    for (dim3 block : blocks) {
        fill<<<1, block, 0, stream>>>(memory, COUNT, 1.0f);
        MUST(cudaGetLastError() == cudaErrorInvalidConfiguration);
    }
    fill<<<1, 1, 49153, stream>>>(memory, COUNT, 1.0f);
    MUST(cudaGetLastError() == cudaErrorInvalidValue);
    MUST(cudaGetLastError() == cudaSuccess);
    fill<<<dim3(1, 65535), dim3(1, 1, 64), 49152, stream>>>(memory, 0, 1.0f);
    MUST(cudaGetLastError() == cudaSuccess);
    release(memory, stream);
}

static void calls_that_fail()
{
    void *memory;
    setenv("EMULATED_GPU_FAILS", "call:2", 1);
    cudaStream_t stream = new_stream();
    MUST(cudaMalloc(&memory, BYTES) == cudaErrorMemoryAllocation);
    MUST(cudaGetLastError() == cudaErrorMemoryAllocation);
    MUST(cudaGetLastError() == cudaSuccess);
    release(device_memory(), stream);
}

static void work_that_fails()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    setenv("EMULATED_GPU_FAILS", "work:1", 1);
    launch_fill(memory, COUNT, 5, stream);
    MUST(cudaGetLastError() == cudaSuccess);
    MUST(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    MUST(cudaGetLastError() == cudaErrorLaunchFailure);
    MUST(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    MUST_WORK(cudaSetDevice(1));
    float *other = device_memory();
    MUST_WORK(cudaFree(other));
    unsetenv("EMULATED_GPU_FAILS");
    release(memory, stream);
}

/* ---- captures ----------------------------------------------------------- */

static void begin_capture(cudaStream_t stream)
{
    MUST_WORK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static cudaGraphExec_t end_capture(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST_WORK(cudaStreamEndCapture(stream, &graph));
    MUST_WORK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    MUST_WORK(cudaGraphDestroy(graph));
    return executable;
}

static __global__ void add(float *to, const float *what)
{
    to[0] += what[0];
}

/* What is captured is done when the graph is launched, each time, with what lies there then. */
static void captured_work_is_replayed()
{
    cudaStream_t stream = new_stream();
    float *sum = device_memory(), *what = device_memory(), *copy = device_memory();
    launch_fill(sum, COUNT, 0, stream);
    launch_fill(what, COUNT, 3, stream);
    begin_capture(stream);
    MUST_WORK(cudaMemcpyAsync(copy, what, sizeof(float), cudaMemcpyDeviceToDevice, stream));
    add<<<1, 1, 0, stream>>>(sum, copy);
    MUST(cudaGetLastError() == cudaSuccess);
    cudaGraphExec_t graph = end_capture(stream);
    MUST(fetch(sum, stream) == 0);
    MUST_WORK(cudaGraphLaunch(graph, stream));
    launch_fill(what, COUNT, 4, stream);
    MUST_WORK(cudaGraphLaunch(graph, stream));
    MUST(fetch(sum, stream) == 7 && emulated_gpu_graphs() == 2);
    MUST_WORK(cudaGraphExecDestroy(graph));
    MUST(cudaGraphLaunch(graph, stream) == cudaErrorInvalidValue);
    MUST_WORK(cudaFree(what));
    MUST_WORK(cudaFree(copy));
    release(sum, stream);
}

/* What no capture may hold fails at once, and the capture at its end; then the stream works again. */
static void captures_refuse()
{
    static float pageable[1];
    cudaStream_t stream = new_stream();
    cudaEvent_t event = new_event();
    float *memory = device_memory(), *other = device_memory();
    void *ignored;
    for (int wrong = 0; wrong < 10; wrong++) {
        cudaError_t error = cudaSuccess;
        cudaGraph_t graph;
        begin_capture(stream);
        launch_fill(memory, COUNT, 5, stream);
        if (wrong == 0)
            error = cudaStreamSynchronize(stream);
        else if (wrong == 1)
            error = cudaDeviceSynchronize();
        else if (wrong == 2)
            error = cudaMalloc(&ignored, BYTES);
        else if (wrong == 3)
            error = cudaFree(other);
        else if (wrong == 4)
            error = cudaHostAlloc(&ignored, BYTES, cudaHostAllocPortable);
        else if (wrong == 5)
            error = cudaMemset(memory, 0, BYTES);
        else if (wrong == 6)
            error = cudaMemcpyAsync(memory, pageable, 4, cudaMemcpyHostToDevice, stream);
        else if (wrong == 7)
            error = cudaStreamWaitEvent(stream, event, 0);
        else if (wrong == 8)
            error = cudaEventRecord(event, stream);
        else {
            launch_fill(memory, COUNT, 5, nullptr);
            error = cudaGetLastError();
        }
        MUST(error != cudaSuccess);
        launch_fill(memory, COUNT, 5, stream);
        MUST(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
        MUST(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
        MUST(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    }
    launch_fill(memory, COUNT, 6, stream);
    MUST(fetch(memory, stream) == 6);
    MUST(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal) ==
         cudaErrorStreamCaptureUnsupported);
    MUST_WORK(cudaEventDestroy(event));
    MUST_WORK(cudaFree(other));
    release(memory, stream);
}

static void leaks_graph()
{
    cudaStream_t stream = new_stream();
    begin_capture(stream);
    end_capture(stream);
    MUST_WORK(cudaStreamDestroy(stream));
}

static void graph_after_free()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    begin_capture(stream);
    launch_fill(memory, COUNT, 5, stream);
    cudaGraphExec_t graph = end_capture(stream);
    MUST_WORK(cudaFree(memory));
    MUST_WORK(cudaGraphLaunch(graph, stream));
    MUST_WORK(cudaStreamSynchronize(stream));
}

/* ---- two GPUs ----------------------------------------------------------- */

static void wrong_gpu_is_refused()
{
    cudaStream_t stream = new_stream(), other_stream;
    cudaEvent_t event = new_event();
    float *memory = device_memory(), value = 0;
    MUST_WORK(cudaSetDevice(1));
    other_stream = new_stream();
    launch_fill(memory, COUNT, 5, stream);
    MUST(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    MUST(cudaEventRecord(event, other_stream) == cudaErrorInvalidResourceHandle);
    MUST(cudaMemset(memory, 0, BYTES) == cudaErrorInvalidValue);
    MUST(cudaMemcpyAsync(memory, &value, 4, cudaMemcpyHostToDevice, other_stream) ==
         cudaErrorInvalidValue);
    MUST_WORK(cudaMemcpyAsync(memory, &value, 4, cudaMemcpyHostToDevice, stream));
    MUST(fetch(memory, stream) == 0);
    MUST(cudaSetDevice(2) == cudaErrorInvalidDevice);
    MUST_WORK(cudaStreamDestroy(other_stream));
    MUST_WORK(cudaEventDestroy(event));
    release(memory, stream);
    MUST(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
    MUST(cudaFree(memory) == cudaErrorInvalidValue);
}

static void no_gpu_is_chosen()
{
    device_memory();
}

static void kernel_is_given_other_gpu()
{
    float *memory = device_memory();
    MUST_WORK(cudaSetDevice(1));
    launch_fill(memory, COUNT, 5, new_stream());
}

static __global__ void fill_indirect(float *const *to)
{
    **to = 5;
}

static void kernel_reaches_other_gpu()
{
    float *memory = device_memory();
    MUST_WORK(cudaSetDevice(1));
    cudaStream_t stream = new_stream();
    float *pointer = device_memory();
    MUST_WORK(cudaMemcpyAsync(pointer, &memory, sizeof(memory), cudaMemcpyHostToDevice, stream));
    fill_indirect<<<1, 1, 0, stream>>>((float *const *)(void *)pointer);
    MUST_WORK(cudaStreamSynchronize(stream));
}

/* ---- memory ------------------------------------------------------------- */

static void host_reads_gpu()
{
    volatile float *memory = device_memory();
    MUST(memory[0] == 0);
}

static void host_writes_gpu_behind_work()
{
    float *memory = device_memory();
    cudaStream_t stream = new_stream();
    launch_fill(memory, COUNT, 5, stream);
    MUST_WORK(cudaStreamSynchronize(stream));
    memory[COUNT - 1] = 1;
}

static void kernel_is_given_host()
{
    static float memory[COUNT];
    launch_fill(memory, COUNT, 5, new_stream());
}

static void kernel_writes_beyond()
{
    cudaStream_t stream = new_stream();
    launch_fill(device_memory(), COUNT + 1, 5, stream);
    MUST_WORK(cudaStreamSynchronize(stream));
}

static void kernel_after_free()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    launch_fill(memory, COUNT, 5, stream);
    release(memory, stream); /* and the program ends: the work is done then */
}

static void copy_after_free()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory(), *host = host_memory();
    MUST_WORK(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, stream));
    MUST_WORK(cudaFreeHost(host));
    MUST_WORK(cudaStreamSynchronize(stream));
}

static void registered_memory()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory(), *host = (float *)calloc(1, BYTES);
    MUST_WORK(cudaHostRegister(host, BYTES, cudaHostRegisterPortable));
    MUST(cudaHostRegister(host, BYTES, 0) == cudaErrorHostMemoryAlreadyRegistered);
    MUST(cudaFreeHost(host) == cudaErrorInvalidValue);
    launch_fill(memory, COUNT, 5, stream);
    MUST_WORK(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, stream));
    MUST(host[0] == 0); /* later, as page-locked memory is */
    MUST_WORK(cudaStreamSynchronize(stream));
    MUST(host[COUNT - 1] == 5);
    MUST_WORK(cudaHostUnregister(host));
    MUST(cudaHostUnregister(host) == cudaErrorHostMemoryNotRegistered);
    free(host);
    release(memory, stream);
}

static void copy_after_unregister()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    static float host[COUNT];
    MUST_WORK(cudaHostRegister(host, BYTES, cudaHostRegisterPortable));
    MUST_WORK(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, stream));
    MUST_WORK(cudaHostUnregister(host));
    MUST_WORK(cudaStreamSynchronize(stream));
}

static void leaks_registration()
{
    static float host[COUNT];
    cudaSetDevice(0);
    MUST_WORK(cudaHostRegister(host, BYTES, cudaHostRegisterPortable));
}

static void free_memory_is_told()
{
    size_t before, now, all;
    MUST_WORK(cudaSetDevice(0));
    MUST_WORK(cudaMemGetInfo(&before, &all));
    float *memory = device_memory();
    MUST_WORK(cudaMemGetInfo(&now, &all));
    MUST(now == before - BYTES && before <= all);
    MUST_WORK(cudaFree(memory));
}

static void host_reads_after_free()
{
    float *host = host_memory();
    MUST_WORK(cudaFreeHost(host));
    MUST(((volatile float *)host)[0] == 0);
}

static void leaks_memory()
{
    device_memory();
}

static void leaks_stream()
{
    new_stream();
}

/* ---- blocks ------------------------------------------------------------- */

enum kind {
    WARP_SUM,
    HALVES,
    VOTES,
    NOT_IN_MASK,
    OTHER_MASK,
    OTHER_OPERATION,
    FROM_OUTSIDE,
    FROM_ENDED,
    MISSING_LANE
};

static __global__ void block(enum kind kind, float *to)
{
    const unsigned all = 0xffffffffu;
    unsigned lane = threadIdx.x % 32, low = lane < 16;
    float value = (float)lane;
    if (kind == WARP_SUM) {
        for (int step = 16; step > 0; step /= 2)
            value += __shfl_xor_sync(all, value, step);
    } else if (kind == HALVES) {
        unsigned half = low ? 0xffffu : 0xffff0000u;
        value = low ? __shfl_up_sync(half, value, 1) : __shfl_sync(half, value, 31);
        __syncwarp();
        value += __shfl_down_sync(all, value, 16);
    } else if (kind == VOTES) {
        value = (float)(__ballot_sync(all, lane == 3) + __all_sync(all, lane < 31) * 100 +
                        __any_sync(all, lane == 31) * 10);
    } else if (kind == NOT_IN_MASK) {
        __syncwarp(0xffffu);
    } else if (kind == OTHER_MASK) {
        __syncwarp(low ? all : 0xffff8000u);
    } else if (kind == OTHER_OPERATION) {
        value = low ? __shfl_sync(all, value, 0) : (float)__any_sync(all, 1);
    } else if (kind == FROM_OUTSIDE) {
        value = low ? __shfl_sync(0xffffu, value, 16) : 0;
    } else if (kind == FROM_ENDED) {
        if (!low)
            return;
        value = __shfl_sync(all, value, 16);
    } else if (low) {
        __syncwarp();
    } else {
        __syncthreads();
    }
    to[threadIdx.x] = value;
}

static float run_block(enum kind kind, unsigned at)
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    block<<<1, 64, 0, stream>>>(kind, memory);
    float value = fetch(memory + at, stream);
    release(memory, stream);
    return value;
}

static void warps()
{
    for (int i = 0; i < 2; i++) { /* forwards and backwards */
        MUST(run_block(WARP_SUM, 40) == 496);
        MUST(run_block(HALVES, 3) == 2 + 31);
        MUST(run_block(VOTES, 63) == 8 + 10);
        MUST(run_block(VOTES, 0) == 8 + 10);
    }
}

static __global__ void use_shared(float *to)
{
    __shared__ float cell[4];
    if (to[0] == 0)
        cell[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = cell[3 - threadIdx.x];
}

static void shared_memory()
{
    cudaStream_t stream = new_stream();
    float *memory = device_memory();
    for (int i = 0; i < 2; i++) {
        launch_fill(memory, COUNT, 0, stream);
        use_shared<<<1, 4, 0, stream>>>(memory);
        MUST(fetch(memory, stream) == 3);
        use_shared<<<1, 4, 0, stream>>>(memory); /* of a block before it, nothing is left */
        MUST(fetch(memory + 1, stream) != 2);
    }
    release(memory, stream);
}

static __global__ void use_too_much_shared(char *to)
{
    __shared__ char cells[48 << 10];
    __shared__ int one;
    cells[0] = 0;
    one = 0;
    to[0] = (char)(cells[0] + one);
}

static void too_much_shared()
{
    cudaStream_t stream = new_stream();
    use_too_much_shared<<<1, 1, 0, stream>>>((char *)device_memory());
    MUST_WORK(cudaStreamSynchronize(stream));
}

/* ---- main --------------------------------------------------------------- */

#define CASE(name)  \
    {               \
#name, name \
    }
#define BLOCK(name, kind)                       \
    {                                           \
#name, [] { (void)run_block(kind, 0); } \
    }

static const struct {
    const char *name;
    void (*run)();
} cases[] = {
    CASE(late_kernel),
    CASE(late_memset),
    CASE(registered_memory),
    CASE(free_memory_is_told),
    CASE(blocking_stream_follows_default),
    CASE(events_order_streams),
    CASE(grid_limits),
    CASE(calls_that_fail),
    CASE(work_that_fails),
    CASE(captured_work_is_replayed),
    CASE(captures_refuse),
    CASE(leaks_graph),
    CASE(graph_after_free),
    CASE(wrong_gpu_is_refused),
    CASE(no_gpu_is_chosen),
    CASE(kernel_is_given_other_gpu),
    CASE(kernel_reaches_other_gpu),
    CASE(host_reads_gpu),
    CASE(host_writes_gpu_behind_work),
    CASE(kernel_is_given_host),
    CASE(kernel_writes_beyond),
    CASE(kernel_after_free),
    CASE(copy_after_free),
    CASE(copy_after_unregister),
    CASE(host_reads_after_free),
    CASE(leaks_registration),
    CASE(leaks_memory),
    CASE(leaks_stream),
    CASE(warps),
    CASE(shared_memory),
    CASE(too_much_shared),
    BLOCK(lane_not_in_mask, NOT_IN_MASK),
    BLOCK(lanes_with_other_masks, OTHER_MASK),
    BLOCK(lanes_at_other_operations, OTHER_OPERATION),
    BLOCK(lane_reads_outside_mask, FROM_OUTSIDE),
    BLOCK(lane_reads_ended, FROM_ENDED),
    BLOCK(lane_is_missing, MISSING_LANE),
};

int main(int count, char **arguments)
{
    for (const auto &one : cases) {
        if (count == 2 && strcmp(arguments[1], one.name) == 0) {
            if (strncmp(one.name, "no_gpu", 6) != 0)
                MUST_WORK(cudaSetDevice(0));
            one.run();
            return 0;
        }
    }
    return 2;
}
