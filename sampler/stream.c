/*
 * `position` runs ahead of `kept_position` by the draws whose record is being written; every one of
 * them is in the list of waiters or in the commit under way. That is what makes taking back safe:
 * nothing beyond kept_position was ever answered.
 */
#include "sampler/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"

struct stream {
    struct cut cut;
    struct state *state; /* borrowed, or NULL */
    enum durability durability;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t changed;
    bool committer_sleeps;
    bool woken;
    int64_t position;
    int64_t batches;
    int64_t kept_position; /* as state_write() last took them */
    int64_t kept_batches;
    struct stream_waiter *waiters; /* in the order of their draws */
    struct stream_waiter **waiters_end;
    bool failing;
    struct error_report failure;
};

enum error stream_new(const struct cut *cut, struct state *state, enum durability durability,
                      struct stream **ret_stream)
{
    struct stream *stream = array_new(1, sizeof(*stream), "a stream");
    if (!stream)
        return ERROR_MEMORY;
    stream->cut = *cut;
    stream->state = state;
    stream->durability = durability;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->waiters_end = &stream->waiters;
    const struct state_record *kept = state ? state_kept(state) : NULL;
    if (kept) {
        stream->position = stream->kept_position = kept->position;
        stream->batches = stream->kept_batches = kept->batches;
    }
    *ret_stream = stream;
    return OK;
}

enum error stream_finish(struct stream *stream)
{
    enum error error = OK;
    pthread_mutex_lock(&stream->mutex);
    bool sync = stream->durability != DURABILITY_FSYNC; /* else the committer did it */
    if (stream->state && sync)
        error = state_write(stream->state, stream->position, stream->batches, true);
    pthread_mutex_unlock(&stream->mutex);
    return error;
}

void stream_free(struct stream *stream)
{
    if (!stream)
        return;
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

const struct cut *stream_cut(const struct stream *stream)
{
    return &stream->cut;
}

void stream_status(struct stream *stream, struct stream_status *ret_status)
{
    pthread_mutex_lock(&stream->mutex);
    *ret_status = (struct stream_status){
        .position = stream->position,
        .epoch = stream->position / stream->cut.epoch_positions,
        .batches = stream->batches,
        .ended = stream->position >= cut_end(&stream->cut),
        .failing = stream->failing,
    };
    pthread_mutex_unlock(&stream->mutex);
}

bool stream_waits(const struct stream *stream)
{
    return stream->state && stream->durability == DURABILITY_FSYNC;
}

enum error stream_failure(struct stream *stream)
{
    struct error_report failure;
    pthread_mutex_lock(&stream->mutex);
    failure = stream->failure;
    pthread_mutex_unlock(&stream->mutex);
    return error_restore(&failure);
}

/* ---- draws: the mutex is held ---------------------------------------------------------------- */

static void note_failure(struct stream *stream, enum error error)
{
    error_report_take(error, &stream->failure);
    if (!stream->failing)
        log_error("%s; draws are refused until it can be written", error_message());
    stream->failing = true;
}

static void note_success(struct stream *stream)
{
    if (stream->failing)
        log_info("the state can be written again; draws go on");
    stream->failing = false;
}

static enum error keep_now(struct stream *stream, int64_t position, int64_t batches)
{
    enum error error = state_write(stream->state, position, batches, false);
    if (error != OK) {
        note_failure(stream, error);
        return error;
    }
    note_success(stream);
    return OK;
}

static void wait_for_commit(struct stream *stream, struct stream_waiter *waiter)
{
    waiter->next = NULL;
    waiter->error = OK;
    *stream->waiters_end = waiter;
    stream->waiters_end = &waiter->next;
    if (stream->committer_sleeps) {
        stream->committer_sleeps = false;
        pthread_cond_signal(&stream->changed);
    }
}

static enum error draw_locked(struct stream *stream, int64_t size, struct stream_waiter *waiter,
                              struct span *ret_span, bool *ret_wait)
{
    struct span span;
    cut_next(&stream->cut, stream->position, size, &span);
    int64_t position = span.first + span.size;
    int64_t batches = stream->batches + (span.size > 0);
    if (position < stream->position)
        position = stream->position; /* kept from a start with more epochs */
    bool moves = position != stream->position;
    if (stream->state && stream->durability == DURABILITY_PROCESS && moves) {
        enum error error = keep_now(stream, position, batches);
        if (error != OK)
            return error;
    }
    stream->position = position;
    stream->batches = batches;
    *ret_span = span;
    *ret_wait = false;
    /* The end, too, is told only when the draws that led to it are kept. */
    if (stream_waits(stream) && position != stream->kept_position) {
        *ret_wait = true;
        wait_for_commit(stream, waiter);
    }
    return OK;
}

enum error stream_draw(struct stream *stream, int64_t size, struct stream_waiter *waiter,
                       struct span *ret_span, bool *ret_wait)
{
    enum error error = cut_check_size(&stream->cut, size);
    if (error != OK)
        return error;
    pthread_mutex_lock(&stream->mutex);
    if (stream->failing && stream_waits(stream))
        error = error_restore(&stream->failure);
    else
        error = draw_locked(stream, size, waiter, ret_span, ret_wait);
    pthread_mutex_unlock(&stream->mutex);
    return error;
}

enum error stream_peek(struct stream *stream, int64_t size, struct span *ret_span)
{
    enum error error = cut_check_size(&stream->cut, size);
    if (error != OK)
        return error;
    pthread_mutex_lock(&stream->mutex);
    int64_t position = stream->position;
    pthread_mutex_unlock(&stream->mutex);
    cut_next(&stream->cut, position, size, ret_span);
    return OK;
}

/* ---- commits --------------------------------------------------------------------------------- */

static bool must_commit(const struct stream *stream)
{
    return stream->failing || stream->waiters != NULL;
}

bool stream_commit_begin(struct stream *stream, int64_t deadline_ns,
                         struct stream_commit *ret_commit)
{
    struct timespec deadline = clock_timespec(deadline_ns);
    pthread_mutex_lock(&stream->mutex);
    while (!must_commit(stream) && !stream->woken) {
        stream->committer_sleeps = true;
        int error =
            pthread_cond_clockwait(&stream->changed, &stream->mutex, CLOCK_MONOTONIC, &deadline);
        stream->committer_sleeps = false;
        if (error == ETIMEDOUT)
            break;
    }
    bool found = must_commit(stream);
    stream->woken = false;
    if (found) {
        *ret_commit = (struct stream_commit){
            .position = stream->position, .batches = stream->batches, .waiters = stream->waiters};
        stream->waiters = NULL;
        stream->waiters_end = &stream->waiters;
    }
    pthread_mutex_unlock(&stream->mutex);
    return found;
}

/* Everything that is not kept goes back; the draws that came meanwhile share the fate of those
 * whose write failed. */
static void take_back(struct stream *stream, struct stream_commit *commit, enum error error)
{
    struct stream_waiter **end = &commit->waiters;
    note_failure(stream, error);
    while (*end)
        end = &(*end)->next;
    *end = stream->waiters;
    stream->waiters = NULL;
    stream->waiters_end = &stream->waiters;
    stream->position = stream->kept_position;
    stream->batches = stream->kept_batches;
}

static void tell(struct stream_waiter *waiter, enum error error)
{
    while (waiter) {
        struct stream_waiter *next = waiter->next; /* ready() gives the storage back */
        waiter->error = error;
        waiter->ready(waiter);
        waiter = next;
    }
}

enum error stream_commit_end(struct stream *stream, struct stream_commit *commit)
{
    enum error error = state_write(stream->state, commit->position, commit->batches, true);
    pthread_mutex_lock(&stream->mutex);
    if (error == OK) {
        stream->kept_position = commit->position;
        stream->kept_batches = commit->batches;
        note_success(stream);
    } else {
        take_back(stream, commit, error);
    }
    pthread_mutex_unlock(&stream->mutex);
    tell(commit->waiters, error);
    return error;
}

void stream_commit_wake(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->woken = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}
