/* SPDX-License-Identifier: MIT */
/*
 * Streams and events. A stream is a list of work, numbered in the order in which it was enqueued
 * anywhere. It is done when somebody waits for it: up to the number that is waited for, by the
 * thread that waits. A stream that waits for an event makes the other one go as far first.
 */
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

struct work {
    struct work *next;
    uint64_t number;
    void (*run)(void *closure);
    _Alignas(16) char closure[];
};

/* Never freed: events, and work elsewhere, go on naming it. */
struct CUstream_st {
    struct emulated_stream_head head; /* first */
    struct CUstream_st *next;
    struct work *first, *last;
    struct emulated_capture *capture; /* NULL: it works */
    int device;
    bool blocking, destroyed; /* blocking: in order with the default stream */
};

struct emulated_event {
    struct emulated_event *next;
    struct CUstream_st *stream; /* where it was recorded; NULL: nowhere yet */
    uint64_t number;            /* of the last work before it */
    int device;
    bool destroyed;
};

static struct CUstream_st *streams, defaults[EMULATED_GPUS];
static struct emulated_event *events;
static uint64_t numbers;
static long drains;

/* ---- work --------------------------------------------------------------- */

static void run_until(struct CUstream_st *stream, uint64_t number);

/* The default stream's work comes after what blocking streams were given before it, and theirs
 * after what it was given. */
static void run_what_is_before(const struct CUstream_st *stream, uint64_t number)
{
    if (stream->blocking)
        run_until(&defaults[stream->device], number);
    if (stream != &defaults[stream->device])
        return;
    for (struct CUstream_st *other = streams; other; other = other->next) {
        if (other->blocking && other->device == stream->device)
            run_until(other, number);
    }
}

static void run_until(struct CUstream_st *stream, uint64_t number)
{
    struct work *work;
    while ((work = stream->first) && work->number <= number) {
        run_what_is_before(stream, work->number);
        stream->first = work->next;
        if (emulated_may_work(stream->device)) {
            emulated_reach(stream->device);
            work->run(work->closure);
        }
        free(work);
    }
}

void emulated_run(struct CUstream_st *stream)
{
    run_until(stream, numbers);
}

/* The host waits. */
static void wait_until(struct CUstream_st *stream, uint64_t number)
{
    bool waits = stream->first && stream->first->number <= number;
    run_until(stream, number);
    drains += waits && !stream->first;
}

long emulated_gpu_drains(void)
{
    return drains;
}

void emulated_run_device(int device)
{
    emulated_run(&defaults[device]);
    for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
        if (stream->device == device)
            emulated_run(stream);
    }
}

void emulated_enqueue(struct CUstream_st *stream, void (*run)(void *closure), const void *closure,
                      size_t closure_bytes)
{
    if (stream->capture) {
        emulated_record(stream->capture, run, closure, closure_bytes);
        return;
    }
    struct work *work = malloc(sizeof(*work) + closure_bytes);
    if (!work)
        emulated_abort("no memory for a stream's work");
    work->next = NULL;
    work->number = ++numbers;
    work->run = run;
    memcpy(work->closure, closure, closure_bytes);
    if (stream->first)
        stream->last->next = work;
    else
        stream->first = work;
    stream->last = work;
}

static void check_pointers(const struct CUstream_st *stream, const void *const *pointers,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pointers[i] && !emulated_is_reachable(pointers[i], 1, stream->device))
            emulated_abort("work is given memory of the host, of another GPU, or that was freed");
    }
}

cudaError_t emulated_submit(cudaStream_t handle, void (*work)(void *closure), const void *closure,
                            size_t closure_bytes, const void *const *pointers, size_t pointer_count)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct CUstream_st *stream = emulated_stream(handle);
    if (error == cudaSuccess && (!stream || stream->device != emulated_current()))
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess)
        error = emulated_may_enqueue(stream);
    if (error == cudaSuccess) {
        check_pointers(stream, pointers, pointer_count);
        emulated_enqueue(stream, work, closure, closure_bytes);
    }
    emulated_end(cudaSuccess);
    return error;
}

/* ---- streams ------------------------------------------------------------ */

__attribute__((constructor)) static void number_defaults(void)
{
    for (int device = 0; device < EMULATED_GPUS; device++)
        defaults[device].device = device;
}

struct CUstream_st *emulated_stream(cudaStream_t handle)
{
    if (!handle)
        return &defaults[emulated_current()];
    struct CUstream_st *stream = streams;
    while (stream && stream != handle)
        stream = stream->next;
    return stream && !stream->destroyed ? stream : NULL;
}

int emulated_stream_device(const struct CUstream_st *stream)
{
    return stream->device;
}

struct emulated_capture *emulated_stream_capture(const struct CUstream_st *stream)
{
    return stream->capture;
}

void emulated_stream_divert(struct CUstream_st *stream, struct emulated_capture *capture)
{
    stream->capture = capture;
}

static bool is_capturing(cudaStream_t stream)
{
    return stream->capture != NULL;
}

static bool is_current(cudaStream_t stream)
{
    return stream->device == emulated_current();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned int flags)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    if (error == cudaSuccess && flags > cudaStreamNonBlocking)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        struct CUstream_st *stream = calloc(1, sizeof(*stream));
        if (!stream)
            emulated_abort("no memory for a stream");
        stream->head = (struct emulated_stream_head){emulated_submit, is_current, is_capturing};
        stream->device = emulated_current();
        stream->blocking = !(flags & cudaStreamNonBlocking);
        stream->next = streams;
        *ret_stream = streams = stream;
    }
    return emulated_end(error);
}

/* Waits for nothing, as CUDA's: what the stream was given is still to be done. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    emulated_begin_cleanup();
    struct CUstream_st *stream = handle ? emulated_stream(handle) : NULL;
    if (stream)
        stream->destroyed = true;
    return emulated_end(stream ? emulated_stuck(stream->device) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct CUstream_st *stream = emulated_stream(handle);
    if (!stream)
        return emulated_end(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return emulated_end(emulated_refuse(cudaErrorStreamCaptureUnsupported));
    wait_until(stream, numbers); /* also before an error */
    return emulated_end(error ? error : emulated_stuck(stream->device));
}

/* ---- events ------------------------------------------------------------- */

static struct emulated_event *find_event(cudaEvent_t handle)
{
    struct emulated_event *event = events;
    while (event && event != handle)
        event = event->next;
    return event && !event->destroyed ? event : NULL;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned int flags)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    (void)flags;
    if (error == cudaSuccess) {
        struct emulated_event *event = calloc(1, sizeof(*event));
        if (!event)
            emulated_abort("no memory for an event");
        event->device = emulated_current();
        event->next = events;
        *ret_event = events = event;
    }
    return emulated_end(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    emulated_begin_cleanup();
    struct emulated_event *event = find_event(handle);
    if (event)
        event->destroyed = true;
    return emulated_end(event ? emulated_stuck(event->device) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct emulated_event *event = find_event(handle);
    struct CUstream_st *stream = emulated_stream(stream_handle);
    if (error == cudaSuccess && (!event || !stream || event->device != stream->device))
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && stream->capture)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess) {
        event->stream = stream;
        event->number = numbers;
    }
    return emulated_end(error);
}

struct await {
    struct CUstream_st *stream;
    uint64_t number;
};

static void await(void *closure)
{
    const struct await *await = closure;
    run_until(await->stream, await->number);
}

/* An event that was never recorded is reached. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct emulated_event *event = find_event(handle);
    struct CUstream_st *stream = emulated_stream(stream_handle);
    if (error == cudaSuccess && (!event || !stream || flags != 0))
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && stream->capture)
        error = emulated_refuse(cudaErrorStreamCaptureIsolation);
    if (error == cudaSuccess && event->stream) {
        struct await one = {.stream = event->stream, .number = event->number};
        emulated_enqueue(stream, await, &one, sizeof(one));
    }
    return emulated_end(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct emulated_event *event = find_event(handle);
    if (!event)
        return emulated_end(cudaErrorInvalidResourceHandle);
    if (event->stream)
        wait_until(event->stream, event->number);
    return emulated_end(error ? error : emulated_stuck(event->device));
}

size_t emulated_handles(void)
{
    size_t count = 0;
    for (const struct CUstream_st *stream = streams; stream; stream = stream->next)
        count += !stream->destroyed;
    for (const struct emulated_event *event = events; event; event = event->next)
        count += !event->destroyed;
    return count;
}
