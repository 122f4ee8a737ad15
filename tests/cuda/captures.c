/* SPDX-License-Identifier: MIT */
/*
 * Captures and graphs. A stream that captures has its work taken down here; a graph that is launched
 * gives a stream copies of it. A thread captures on one stream at a time, in thread-local mode.
 */
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

struct recorded {
    struct recorded *next;
    void (*run)(void *closure);
    size_t bytes;
    _Alignas(16) char closure[];
};

/* Graphs, and those that can be launched, which share what was recorded. */
struct emulated_graph {
    struct emulated_graph *next;
    struct recorded *first, **end;
    int device, owners;
};

struct emulated_capture {
    struct emulated_graph *graph;
    bool spoilt;
};

static __thread struct CUstream_st *capturing; /* by this thread; NULL: nothing */
static int captures[EMULATED_GPUS];
static struct emulated_graph *graphs;
static long launches;

/* ---- captures ----------------------------------------------------------- */

cudaError_t emulated_refuse(cudaError_t error)
{
    if (!capturing)
        return cudaSuccess;
    emulated_stream_capture(capturing)->spoilt = true;
    return error;
}

cudaError_t emulated_refuse_device(int device)
{
    (void)emulated_refuse(cudaErrorStreamCaptureUnsupported);
    return captures[device] > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t emulated_may_enqueue(const struct CUstream_st *stream)
{
    const struct emulated_capture *capture = emulated_stream_capture(stream);
    if (stream == emulated_stream(NULL))
        return emulated_refuse(cudaErrorStreamCaptureImplicit);
    if (!capture)
        return cudaSuccess;
    if (stream != capturing)
        return cudaErrorStreamCaptureWrongThread;
    return capture->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

void emulated_record(struct emulated_capture *capture, void (*run)(void *closure),
                     const void *closure, size_t closure_bytes)
{
    struct recorded *made = malloc(sizeof(*made) + closure_bytes);
    if (!made)
        emulated_abort("no memory for captured work");
    *made = (struct recorded){.run = run, .bytes = closure_bytes};
    memcpy(made->closure, closure, closure_bytes);
    *capture->graph->end = made;
    capture->graph->end = &made->next;
}

static void begin(struct CUstream_st *stream)
{
    struct emulated_capture *capture = calloc(1, sizeof(*capture));
    struct emulated_graph *graph = calloc(1, sizeof(*graph));
    if (!capture || !graph)
        emulated_abort("no memory for a capture");
    graph->device = emulated_stream_device(stream);
    graph->end = &graph->first;
    graph->owners = 1;
    graph->next = graphs;
    graphs = graph;
    capture->graph = graph;
    captures[graph->device]++;
    emulated_stream_divert(stream, capture);
    capturing = stream;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct CUstream_st *stream = emulated_stream(handle);
    if (error == cudaSuccess && (!handle || emulated_is_planned("capture")))
        error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess && !stream)
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && mode != cudaStreamCaptureModeThreadLocal)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (capturing || emulated_stream_capture(stream)))
        error = cudaErrorIllegalState;
    if (error == cudaSuccess)
        begin(stream);
    return emulated_end(error);
}

/* ---- graphs ------------------------------------------------------------- */

static struct emulated_graph *find(const struct emulated_graph *graph)
{
    struct emulated_graph *one = graphs;
    while (one && one != graph)
        one = one->next;
    return one;
}

static void put(struct emulated_graph *graph)
{
    struct emulated_graph **link = &graphs;
    if (--graph->owners > 0)
        return;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    for (struct recorded *next, *one = graph->first; one; one = next) {
        next = one->next;
        free(one);
    }
    free(graph);
}

/* Whatever it returns, the stream captures no more. */
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *ret_graph)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    *ret_graph = NULL;
    if (!capturing || handle != capturing)
        return emulated_end(error ? error : cudaErrorIllegalState);
    struct emulated_capture *capture = emulated_stream_capture(capturing);
    struct emulated_graph *graph = capture->graph;
    if (error == cudaSuccess && capture->spoilt)
        error = cudaErrorStreamCaptureInvalidated;
    captures[graph->device]--;
    emulated_stream_divert(capturing, NULL);
    capturing = NULL;
    free(capture);
    if (error == cudaSuccess)
        *ret_graph = graph;
    else
        put(graph);
    return emulated_end(error);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *ret_executable, cudaGraph_t graph,
                                          unsigned long long flags)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    if (error == cudaSuccess && (!find(graph) || flags != 0))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess) {
        graph->owners++;
        *ret_executable = graph;
    }
    return emulated_end(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct CUstream_st *stream = emulated_stream(handle);
    if (error == cudaSuccess &&
        (!stream || !find(graph) || graph->device != emulated_stream_device(stream)))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    for (const struct recorded *one = graph->first; error == cudaSuccess && one; one = one->next)
        emulated_enqueue(stream, one->run, one->closure, one->bytes);
    launches += error == cudaSuccess;
    return emulated_end(error);
}

static cudaError_t destroy(struct emulated_graph *graph)
{
    emulated_begin_cleanup();
    graph = find(graph);
    if (!graph)
        return emulated_end(cudaErrorInvalidValue);
    int device = graph->device;
    put(graph);
    return emulated_end(emulated_stuck(device));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return destroy(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return destroy(executable);
}

size_t emulated_graphs(void)
{
    size_t count = 0;
    for (const struct emulated_graph *one = graphs; one; one = one->next)
        count += (size_t)one->owners;
    return count;
}

long emulated_gpu_graphs(void)
{
    return launches;
}
