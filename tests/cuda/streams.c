/*
 * Streams and events. Each stream is a thread with a list of work. One lock guards all of it: what
 * streams do is short, and the lock is not held meanwhile.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator.h"

/* Some work is late, so that whoever does not wait for it meets what was there before. */
#define LATE_EVERY 8
#define LATE_NS 200000

struct work {
    struct work *next;
    void (*run)(void *closure);
    _Alignas(16) char closure[];
};

struct emulated_stream {
    struct emulated_stream_head head; /* first */
    struct emulated_stream *next;
    struct work *first, **end;
    uint64_t asked, done; /* pieces of work */
    bool ending;
    pthread_t thread;
};

struct emulated_event {
    uint64_t recorded, reached; /* how often */
    int references;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct emulated_stream *streams;

/* ---- work --------------------------------------------------------------- */

static void delay(uint64_t number)
{
    const struct timespec late = {.tv_nsec = LATE_NS};
    if (number % LATE_EVERY == 0)
        nanosleep(&late, NULL);
}

static struct work *take(struct emulated_stream *stream)
{
    pthread_mutex_lock(&lock);
    while (!stream->first && !stream->ending)
        pthread_cond_wait(&changed, &lock);
    struct work *work = stream->first;
    if (work) {
        stream->first = work->next;
        if (!stream->first)
            stream->end = &stream->first;
    }
    pthread_mutex_unlock(&lock);
    return work;
}

static void *serve(void *context)
{
    struct emulated_stream *stream = context;
    struct work *work;
    while ((work = take(stream))) {
        delay(stream->done);
        work->run(work->closure);
        free(work);
        pthread_mutex_lock(&lock);
        stream->done++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void emulated_enqueue(cudaStream_t stream, void (*run)(void *closure), const void *closure,
                      size_t closure_bytes)
{
    if (!stream)
        emulated_abort("work for the default stream, which is not emulated");
    struct work *work = malloc(sizeof(*work) + closure_bytes);
    if (!work)
        emulated_abort("no memory for a stream's work");
    work->next = NULL;
    work->run = run;
    memcpy(work->closure, closure, closure_bytes);
    pthread_mutex_lock(&lock);
    *stream->end = work;
    stream->end = &work->next;
    stream->asked++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(const struct emulated_stream *stream)
{
    uint64_t asked = stream->asked;
    while (stream->done < asked)
        pthread_cond_wait(&changed, &lock);
}

static bool is_idle(void)
{
    const struct emulated_stream *stream = streams;
    while (stream && stream->done == stream->asked)
        stream = stream->next;
    return !stream;
}

void emulated_synchronize(void)
{
    pthread_mutex_lock(&lock);
    while (!is_idle())
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- streams ------------------------------------------------------------ */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned int flags)
{
    struct emulated_stream *stream = calloc(1, sizeof(*stream));
    (void)flags;
    if (!stream)
        return emulated_note(cudaErrorMemoryAllocation);
    stream->head.enqueue = emulated_enqueue;
    stream->end = &stream->first;
    if (pthread_create(&stream->thread, NULL, serve, stream) != 0) {
        free(stream);
        return emulated_note(cudaErrorMemoryAllocation);
    }
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    *ret_stream = stream;
    return cudaSuccess;
}

/* Where the list names it; where it ends, if it does not. */
static struct emulated_stream **find_link(const struct emulated_stream *stream)
{
    struct emulated_stream **link = &streams;
    while (*link && *link != stream)
        link = &(*link)->next;
    return link;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    if (!*find_link(stream)) {
        pthread_mutex_unlock(&lock);
        return emulated_note(cudaErrorInvalidResourceHandle);
    }
    wait_for(stream);
    *find_link(stream) = stream->next; /* others may have come or gone meanwhile */
    stream->ending = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    wait_for(stream);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- events ------------------------------------------------------------- */

struct event_use {
    struct emulated_event *event;
    uint64_t number; /* which of its records is meant */
};

static void let_go(struct emulated_event *event)
{
    if (--event->references == 0)
        free(event);
}

static void reach(void *closure)
{
    struct event_use *use = closure;
    pthread_mutex_lock(&lock);
    if (use->event->reached < use->number)
        use->event->reached = use->number;
    pthread_cond_broadcast(&changed);
    let_go(use->event);
    pthread_mutex_unlock(&lock);
}

static void await(void *closure)
{
    struct event_use *use = closure;
    pthread_mutex_lock(&lock);
    while (use->event->reached < use->number)
        pthread_cond_wait(&changed, &lock);
    let_go(use->event);
    pthread_mutex_unlock(&lock);
}

static struct event_use use_event(struct emulated_event *event, bool records)
{
    pthread_mutex_lock(&lock);
    event->references++;
    event->recorded += records;
    struct event_use use = {.event = event, .number = event->recorded};
    pthread_mutex_unlock(&lock);
    return use;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned int flags)
{
    struct emulated_event *event = calloc(1, sizeof(*event));
    (void)flags;
    if (!event)
        return emulated_note(cudaErrorMemoryAllocation);
    event->references = 1;
    *ret_event = event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    pthread_mutex_lock(&lock);
    let_go(event);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct event_use use = use_event(event, true);
    emulated_enqueue(stream, reach, &use, sizeof(use));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    (void)flags;
    struct event_use use = use_event(event, false);
    emulated_enqueue(stream, await, &use, sizeof(use));
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct event_use use = use_event(event, false);
    await(&use);
    return cudaSuccess;
}
