/* SPDX-License-Identifier: MIT */
#include "sampler/service/live.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "sampler/service/label_balance.h"

#define SECOND_NS INT64_C(1000000000)
#define BALANCE_COUNT_NS (SECOND_NS / 20) /* then the label counter continues alone */
#define BALANCE_LIMIT_BYTES ((size_t)4 << 20)

struct watched {
    char name[STREAM_NAME_BYTES]; /* "": free */
    int64_t generation;
    int64_t asked_ns;
    int64_t due_ns;     /* when to compute a new one */
    struct buffer text; /* empty: not computed yet */
};

struct live {
    struct streams *streams;
    struct history *history;
    struct label_counter *counter;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below; never held while counting */
    pthread_cond_t woken;
    bool stopping;
    bool asked; /* for a balance not computed yet */
    struct watched watched[LIVE_BALANCES];
};

/* ---- the thread --------------------------------------------------------- */

/* Only of draws. */
static struct history_counts counts_of(struct stream *stream)
{
    struct stream_status status;
    stream_status(stream, &status);
    return (struct history_counts){
        .generation = status.generation,
        .jumps = status.jumps,
        .position = status.position,
        .gaps = status.gaps,
        .batches = status.batches,
        .acked = status.acked,
        .redelivered = status.redelivered,
        .ended = status.state == STREAM_ENDED,
    };
}

static enum error note(struct live *live, struct stream *stream, int64_t now_ns)
{
    struct history_counts counts = counts_of(stream);
    struct readers_progress readers;
    readers_progress(stream_readers(stream), &readers);
    counts.reads = readers.batches;
    counts.read = readers.positions;
    counts.read_end = readers.end;
    return history_note(live->history, stream_definition(stream)->name, &counts, now_ns);
}

static void read_streams(struct live *live)
{
    struct stream **streams;
    size_t count;
    enum error error = streams_list(live->streams, &streams, &count);
    if (error) {
        log_debug("the history has a hole: %s", error_message());
        return;
    }
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < count && !error; i++)
        error = note(live, streams[i], now_ns);
    streams_put_all(streams, count);
    history_sweep(live->history);
    if (error)
        log_debug("the history has a hole: %s", error_message());
}

static enum error make_balance(struct live *live, struct stream *stream, struct buffer *text)
{
    struct history_span spans[HISTORY_SPANS];
    struct label_counts counts;
    const struct history_counts now = counts_of(stream);
    size_t count = history_spans(live->history, stream_definition(stream)->name, &now, spans);
    enum error error = label_counter_ask(live->counter, stream, BALANCE_COUNT_NS, &counts);
    if (error)
        return error;
    error = label_balance_write(stream_plan(stream), &counts, spans, count, text);
    free(counts.drawn);
    return error;
}

static bool is_due(const struct watched *watched, int64_t now_ns)
{
    return watched->name[0] && now_ns >= watched->due_ns &&
           now_ns - watched->asked_ns < LIVE_LOOK_SECONDS * SECOND_NS;
}

/* One that is due, its name copied; false: none. */
static bool next_due(struct live *live, char ret_name[STREAM_NAME_BYTES], size_t *ret_place)
{
    int64_t now_ns = clock_now_ns();
    bool found = false;
    pthread_mutex_lock(&live->mutex);
    live->asked = false;
    for (size_t i = 0; !found && !live->stopping && i < LIVE_BALANCES; i++) {
        found = is_due(&live->watched[i], now_ns);
        if (!found)
            continue;
        memcpy(ret_name, live->watched[i].name, STREAM_NAME_BYTES);
        *ret_place = i;
    }
    pthread_mutex_unlock(&live->mutex);
    return found;
}

/* Takes the text. The slot may belong to another stream by now. */
static void keep(struct live *live, size_t place, const char *name, int64_t took_ns,
                 struct buffer *text)
{
    struct watched *watched = &live->watched[place];
    int64_t rest_ns = took_ns * LIVE_BALANCE_SPARE;
    pthread_mutex_lock(&live->mutex);
    if (strcmp(watched->name, name) == 0) {
        struct buffer old = watched->text;
        watched->text = *text;
        *text = old;
        watched->due_ns = clock_now_ns() + (rest_ns > SECOND_NS ? rest_ns : SECOND_NS * 9 / 10);
    }
    pthread_mutex_unlock(&live->mutex);
}

static void make_balances(struct live *live)
{
    char name[STREAM_NAME_BYTES];
    size_t place;
    for (size_t i = 0; i < LIVE_BALANCES && next_due(live, name, &place); i++) {
        struct buffer text = BUFFER_INIT(BALANCE_LIMIT_BYTES);
        int64_t began_ns = clock_now_ns();
        struct stream *stream = streams_take(live->streams, name);
        enum error error = stream ? make_balance(live, stream, &text) : OK;
        if (stream)
            stream_put(stream);
        if (error) {
            log_debug("no balance of labels for stream %s: %s", name, error_message());
            buffer_clear(&text);
        }
        keep(live, place, name, clock_now_ns() - began_ns, &text);
        buffer_release(&text);
    }
}

/* Until the deadline or a request for a balance; false: shutdown. */
static bool wait_until(struct live *live, int64_t deadline_ns)
{
    struct timespec deadline = clock_timespec(deadline_ns);
    pthread_mutex_lock(&live->mutex);
    while (!live->stopping && !live->asked && clock_left_ms(deadline_ns) > 0)
        pthread_cond_clockwait(&live->woken, &live->mutex, CLOCK_MONOTONIC, &deadline);
    bool going_on = !live->stopping;
    pthread_mutex_unlock(&live->mutex);
    return going_on;
}

static void *run(void *context)
{
    struct live *live = context;
    int64_t next_ns = clock_now_ns() + SECOND_NS;
    do {
        if (clock_now_ns() >= next_ns) {
            read_streams(live);
            streams_sweep(live->streams);
            next_ns += SECOND_NS;
            if (next_ns < clock_now_ns())
                next_ns =
                    clock_now_ns() + SECOND_NS; /* the machine slept, or a balance took long */
        }
        make_balances(live);
    } while (wait_until(live, next_ns));
    return NULL;
}

/* ---- life cycle --------------------------------------------------------- */

static void release(struct live *live)
{
    for (size_t i = 0; i < LIVE_BALANCES; i++)
        buffer_release(&live->watched[i].text);
    pthread_cond_destroy(&live->woken);
    pthread_mutex_destroy(&live->mutex);
    label_counter_free(live->counter);
    history_free(live->history);
    free(live);
}

enum error live_new(struct streams *streams, struct live **ret_live)
{
    struct live *live = array_new(1, sizeof(*live), "the live page");
    if (!live)
        return ERROR_MEMORY;
    enum error error = history_new(&live->history);
    if (!error)
        error = label_counter_new(streams, &live->counter);
    if (error) {
        history_free(live->history);
        free(live);
        return error;
    }
    live->streams = streams;
    pthread_mutex_init(&live->mutex, NULL);
    pthread_cond_init(&live->woken, NULL);
    read_streams(live); /* before any draw: so draws are recorded from the first */
    error = thread_start("live page", run, live, &live->thread);
    if (!error)
        *ret_live = live;
    else
        release(live);
    return error;
}

void live_free(struct live *live)
{
    if (!live)
        return;
    pthread_mutex_lock(&live->mutex);
    live->stopping = true;
    pthread_cond_signal(&live->woken);
    pthread_mutex_unlock(&live->mutex);
    pthread_join(live->thread, NULL);
    release(live);
}

/* ---- asking ------------------------------------------------------------- */

struct history *live_history(struct live *live)
{
    return live->history;
}

struct label_counter *live_counter(struct live *live)
{
    return live->counter;
}

void live_notice(struct live *live, struct stream *stream)
{
    if (note(live, stream, clock_now_ns()))
        log_debug("the history has a hole: %s", error_message());
}

enum error live_last_minute(struct live *live, struct stream *stream, int64_t *ret_counts)
{
    struct history_span spans[HISTORY_SPANS];
    const struct history_counts now = counts_of(stream);
    const struct sampling_plan *plan = stream_plan(stream);
    size_t count = history_spans(live->history, stream_definition(stream)->name, &now, spans);
    return label_window_counts(plan, spans, count, NULL, frame_labels(plan->frame), ret_counts);
}

/* The stream's slot; else a free one, or the least recently requested one, freed. */
static struct watched *find_place(struct live *live, const char *name, int64_t generation)
{
    struct watched *oldest = &live->watched[0];
    for (size_t i = 0; i < LIVE_BALANCES; i++) {
        struct watched *watched = &live->watched[i];
        if (watched->generation == generation && strcmp(watched->name, name) == 0)
            return watched;
        if (watched->asked_ns < oldest->asked_ns)
            oldest = watched;
    }
    buffer_release(&oldest->text);
    *oldest = (struct watched){.text = BUFFER_INIT(BALANCE_LIMIT_BYTES), .generation = generation};
    memcpy(oldest->name, name, STREAM_NAME_BYTES);
    return oldest;
}

/* A text not requested for long is out of date. */
static bool is_stale(const struct watched *watched, int64_t now_ns)
{
    return watched->text.length == 0 ||
           (now_ns >= watched->due_ns &&
            now_ns - watched->asked_ns > LIVE_LOOK_SECONDS * SECOND_NS);
}

enum error live_add_balance(struct live *live, struct stream *stream, struct buffer *out)
{
    const struct stream_definition *definition = stream_definition(stream);
    struct stream_status status;
    stream_status(stream, &status);
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&live->mutex);
    struct watched *watched = find_place(live, definition->name, status.generation);
    bool stale = is_stale(watched, now_ns);
    watched->asked_ns = now_ns;
    if (stale && now_ns >= watched->due_ns) {
        live->asked = true;
        pthread_cond_signal(&live->woken);
    }
    enum error error = stale ? buffer_add_text(out, "null")
                             : buffer_add(out, watched->text.data, watched->text.length);
    pthread_mutex_unlock(&live->mutex);
    return error;
}
