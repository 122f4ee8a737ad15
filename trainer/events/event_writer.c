/* SPDX-License-Identifier: MIT */
#include "trainer/events/event_writer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/file.h"
#include "common/log.h"
#include "trainer/events/event_encoding.h"
#include "trainer/events/event_file.h"

/* A state whose histograms are to be computed. */
struct parcel {
    struct event_time time;
    struct event_tensor *tensors;
    size_t count;
    float *values;
};
#define PARCELS_LIMIT 2 /* a short training's start and end */

/* Shared by the thread and those who add events: freed by the last of them. */
struct queue {
    pthread_mutex_t lock; /* guards the six below */
    pthread_cond_t changed;
    struct event_buffers waiting;
    struct parcel parcels[PARCELS_LIMIT];
    size_t parcel_count;
    int64_t left_out; /* events dropped for lack of room */
    bool is_closing;

    /* Only for the thread */
    char *folder;
    bool below; /* the logdir */
    bool was_ready;
    bool is_ready, is_failing; /* both files are open; one could not be opened */
    struct event_buffers writing;
    struct event_file records, lines;
};

struct event_writer {
    struct queue *queue;   /* the errand's */
    struct errand *errand; /* the thread */
};

static void release_buffers(struct event_buffers *buffers)
{
    buffer_release(&buffers->records);
    buffer_release(&buffers->lines);
}

static void release_parcel(struct parcel *parcel)
{
    free(parcel->tensors);
    free(parcel->values);
}

static void queue_free(void *context)
{
    struct queue *queue = context;
    release_buffers(&queue->waiting);
    release_buffers(&queue->writing);
    for (size_t i = 0; i < queue->parcel_count; i++)
        release_parcel(&queue->parcels[i]);
    event_file_close(&queue->records);
    event_file_close(&queue->lines);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue->folder);
    free(queue);
}

/* ---- the thread --------------------------------------------------------- */

static bool has_much(const struct queue *queue)
{
    size_t bytes = queue->waiting.records.length + queue->waiting.lines.length;
    return queue->parcel_count > 0 || bytes >= EVENT_QUEUE_BYTES / 2;
}

/* False: at the end. Otherwise returns at the deadline, or when there is much to do. */
static bool wait_for_events(struct queue *queue)
{
    struct timespec until = clock_timespec(clock_deadline_ns(EVENT_FLUSH_MS));
    int failure = 0;
    pthread_mutex_lock(&queue->lock);
    while (!queue->is_closing && !failure && !(queue->is_ready && has_much(queue)))
        failure = pthread_cond_clockwait(&queue->changed, &queue->lock, CLOCK_MONOTONIC, &until);
    bool is_open = !queue->is_closing;
    pthread_mutex_unlock(&queue->lock);
    return is_open;
}

static void write_out(struct queue *queue)
{
    event_file_write(&queue->records, &queue->writing.records);
    event_file_write(&queue->lines, &queue->writing.lines);
    buffer_clear(&queue->writing.records);
    buffer_clear(&queue->writing.lines);
}

static enum error open_files(struct queue *queue)
{
    enum error error = queue->was_ready && !queue->below ? OK : file_make_folder(queue->folder);
    if (!error && queue->records.descriptor < 0)
        error = event_file_create(&queue->records, queue->folder);
    if (!error && queue->lines.descriptor < 0)
        error = event_file_append(&queue->lines, queue->folder);
    return error;
}

static void leave_if_removed(struct queue *queue, struct event_file *file)
{
    if (!event_file_is_removed(file))
        return;
    log_warning("%s was removed, with its events; the next ones are written anew", file->path);
    event_file_close(file);
    queue->is_ready = false;
}

/* A folder that cannot be written is retried at each flush. */
static bool are_files_open(struct queue *queue)
{
    leave_if_removed(queue, &queue->records);
    leave_if_removed(queue, &queue->lines);
    if (queue->is_ready)
        return true;
    queue->is_ready = !open_files(queue);
    if (!queue->is_ready && !queue->is_failing)
        log_warning("there are no events for TensorBoard until this changes: %s", error_message());
    queue->is_failing = !queue->is_ready;
    struct event_time now = {.wall_seconds = clock_wall_seconds()};
    queue->was_ready |= queue->is_ready;
    if (queue->is_ready && queue->records.length == 0 && event_encode_version(&queue->writing, now))
        write_out(queue);
    return queue->is_ready;
}

static int64_t count_histograms(struct queue *queue, const struct parcel *parcel)
{
    int64_t left_out = 0;
    struct histogram histogram;
    for (size_t i = 0; i < parcel->count; i++) {
        const struct event_tensor *tensor = &parcel->tensors[i];
        histogram_count(&histogram, parcel->values + tensor->offset, tensor->count);
        left_out += !event_encode_histogram(&queue->writing, parcel->time, tensor->tag, &histogram);
    }
    return left_out;
}

static void write_waiting(struct queue *queue)
{
    struct parcel parcels[PARCELS_LIMIT];
    pthread_mutex_lock(&queue->lock);
    struct event_buffers taken = queue->waiting;
    queue->waiting = queue->writing;
    queue->writing = taken;
    size_t count = queue->parcel_count;
    memcpy(parcels, queue->parcels, sizeof(parcels));
    queue->parcel_count = 0;
    int64_t left_out = queue->left_out;
    queue->left_out = 0;
    pthread_mutex_unlock(&queue->lock);
    write_out(queue);
    for (size_t i = 0; i < count; i++) {
        left_out += count_histograms(queue, &parcels[i]);
        release_parcel(&parcels[i]);
        write_out(queue);
    }
    if (left_out > 0)
        log_warning("%s: %" PRId64 " events were left out: they came faster than they could be "
                    "written",
                    queue->records.path, left_out);
}

static void write_events(void *context)
{
    struct queue *queue = context;
    bool is_open = true;
    are_files_open(queue); /* at once: histograms wait for it, and their number is limited */
    while (is_open) {
        is_open = wait_for_events(queue);
        if (are_files_open(queue))
            write_waiting(queue);
    }
    event_file_close(&queue->records);
    event_file_close(&queue->lines);
}

/* ---- life cycle --------------------------------------------------------- */

static enum error queue_new(const char *folder, bool below, struct queue **ret_queue)
{
    struct queue *queue = array_new(1, sizeof(*queue), "the queue of events");
    if (!queue)
        return ERROR_MEMORY;
    static const struct event_buffers empty = {BUFFER_INIT(EVENT_QUEUE_BYTES),
                                               BUFFER_INIT(EVENT_QUEUE_BYTES)};
    queue->waiting = queue->writing = empty;
    queue->records.descriptor = queue->lines.descriptor = -1;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    queue->below = below;
    queue->folder = strdup(folder);
    if (!queue->folder) {
        queue_free(queue);
        return error_set_memory(strlen(folder) + 1, "the folder of events");
    }
    *ret_queue = queue;
    return OK;
}

enum error event_writer_open(const char *folder, bool below, struct event_writer **ret_writer)
{
    struct event_writer *writer = array_new(1, sizeof(*writer), "a writer of events");
    if (!writer)
        return ERROR_MEMORY;
    enum error error = queue_new(folder, below, &writer->queue);
    if (!error)
        error = errand_new(write_events, queue_free, writer->queue, &writer->errand);
    if (error && writer->queue)
        queue_free(writer->queue);
    if (!error) {
        error = errand_start(writer->errand, "events");
        if (error)
            errand_leave(writer->errand);
    }
    if (error)
        free(writer);
    else
        *ret_writer = writer;
    return error;
}

void event_writer_close(struct event_writer *writer)
{
    if (!writer)
        return;
    pthread_mutex_lock(&writer->queue->lock);
    writer->queue->is_closing = true;
    pthread_cond_signal(&writer->queue->changed);
    pthread_mutex_unlock(&writer->queue->lock);
    if (!errand_wait(writer->errand, clock_deadline_ns(EVENT_CLOSE_MS)))
        log_warning("the last events were not written: that took longer than %d s",
                    EVENT_CLOSE_MS / 1000);
    errand_leave(writer->errand);
    free(writer);
}

/* ---- adding ------------------------------------------------------------- */

static struct queue *begin(struct event_writer *writer)
{
    pthread_mutex_lock(&writer->queue->lock);
    return writer->queue;
}

static void finish(struct queue *queue, bool added)
{
    queue->left_out += !added;
    if (has_much(queue))
        pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static struct event_time now_at(int64_t step)
{
    return (struct event_time){.wall_seconds = clock_wall_seconds(), .step = step};
}

void event_writer_scalars(struct event_writer *writer, int64_t step,
                          const struct event_scalar scalars[], size_t count)
{
    struct queue *queue = begin(writer);
    finish(queue, event_encode_scalars(&queue->waiting, now_at(step), scalars, count));
}

void event_writer_tensors(struct event_writer *writer, int64_t step, struct event_tensor *tensors,
                          size_t count, float *values)
{
    struct parcel parcel = {
        .time = now_at(step), .tensors = tensors, .count = count, .values = values};
    struct queue *queue = begin(writer);
    bool has_room = queue->parcel_count < PARCELS_LIMIT;
    if (!has_room) { /* the newest is the most valuable: it may be the last */
        struct parcel *older = &queue->parcels[--queue->parcel_count];
        queue->left_out += (int64_t)older->count - 1;
        release_parcel(older);
    }
    queue->parcels[queue->parcel_count++] = parcel;
    finish(queue, has_room);
}

void event_writer_session(struct event_writer *writer, int64_t step, enum event_session session,
                          const char *path)
{
    struct queue *queue = begin(writer);
    finish(queue, event_encode_session(&queue->waiting, now_at(step), session, path));
}
