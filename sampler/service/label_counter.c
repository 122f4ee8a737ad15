/* SPDX-License-Identifier: MIT */
#include "sampler/service/label_counter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/thread_pool.h"

#define SECOND_NS INT64_C(1000000000)
#define TURN_NS (SECOND_NS / 4)   /* per stream, before the next one's turn */
#define LOOK_AGAIN_NS (SECOND_NS) /* at streams that are fully counted */

struct followed {
    char name[STREAM_NAME_BYTES]; /* "": free */
    int64_t asked_ns;
};

struct label_counter {
    struct streams *streams;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below; never held while counting */
    pthread_cond_t woken;
    bool stopping;
    bool asked; /* since the last round began */
    struct followed followed[LABEL_COUNTER_STREAMS];
};

/* ---- the thread --------------------------------------------------------- */

/* Sleeps; true: continue. `wakes`: ends early at a request. */
static bool pause_for(struct label_counter *counter, int64_t pause_ns, bool wakes)
{
    int64_t deadline_ns = clock_now_ns() + pause_ns;
    struct timespec deadline = clock_timespec(deadline_ns);
    pthread_mutex_lock(&counter->mutex);
    while (!counter->stopping && !(wakes && counter->asked) && clock_now_ns() < deadline_ns)
        pthread_cond_clockwait(&counter->woken, &counter->mutex, CLOCK_MONOTONIC, &deadline);
    bool going_on = !counter->stopping;
    pthread_mutex_unlock(&counter->mutex);
    return going_on;
}

/* Slice by slice, resting as long as each took. *ret_left: what remains to be counted after its
 * turn. */
static bool count_set(struct label_counter *counter, struct tally *tally,
                      const struct tally_set *set, int64_t *ret_left)
{
    int64_t turn_ns = clock_now_ns() + TURN_NS;
    bool going_on = true;
    do {
        int64_t began_ns = clock_now_ns();
        if (tally_counts(tally, set, 0, NULL, ret_left)) {
            log_debug("labels are not counted: %s", error_message());
            *ret_left = 0;
        }
        if (*ret_left > 0)
            going_on = pause_for(counter, clock_now_ns() - began_ns, false);
    } while (going_on && *ret_left > 0 && clock_now_ns() < turn_ns);
    return going_on;
}

static bool count_stream(struct label_counter *counter, const char *name, bool *ret_behind)
{
    struct stream_drawn drawn;
    int64_t left = 0;
    bool going_on = true;
    struct stream *stream = streams_take(counter->streams, name);
    if (!stream)
        return true;
    if (!stream_drawn(stream, &drawn)) {
        const struct tally_set set = {drawn.epoch, drawn.spans, drawn.count};
        going_on = count_set(counter, stream_plan(stream)->tally, &set, &left);
        free(drawn.spans);
    }
    stream_put(stream);
    *ret_behind |= left > 0;
    return going_on;
}

/* The name in that slot, or "". */
static void name_at(struct label_counter *counter, size_t place, char ret_name[STREAM_NAME_BYTES])
{
    struct followed *followed = &counter->followed[place];
    pthread_mutex_lock(&counter->mutex);
    if (clock_now_ns() - followed->asked_ns > LABEL_COUNTER_SECONDS * SECOND_NS)
        followed->name[0] = '\0';
    memcpy(ret_name, followed->name, STREAM_NAME_BYTES);
    pthread_mutex_unlock(&counter->mutex);
}

/* Until a request, or shutdown. */
static bool wait_until_asked(struct label_counter *counter)
{
    pthread_mutex_lock(&counter->mutex);
    while (!counter->stopping && !counter->asked)
        pthread_cond_wait(&counter->woken, &counter->mutex);
    bool going_on = !counter->stopping;
    pthread_mutex_unlock(&counter->mutex);
    return going_on;
}

/* Sleeps until there may be something to count; `follows`: followed streams advance meanwhile. */
static bool rest_between(struct label_counter *counter, bool follows)
{
    return follows ? pause_for(counter, LOOK_AGAIN_NS, true) : wait_until_asked(counter);
}

static void *run(void *context)
{
    struct label_counter *counter = context;
    bool going_on = true;
    thread_pool_enter();
    while (going_on) {
        bool follows = false;
        bool behind = false;
        pthread_mutex_lock(&counter->mutex);
        counter->asked = false;
        pthread_mutex_unlock(&counter->mutex);
        for (size_t i = 0; going_on && i < LABEL_COUNTER_STREAMS; i++) {
            char name[STREAM_NAME_BYTES];
            name_at(counter, i, name);
            follows |= name[0] != '\0';
            if (name[0])
                going_on = count_stream(counter, name, &behind);
        }
        if (going_on && !behind)
            going_on = rest_between(counter, follows);
    }
    return NULL;
}

/* ---- life cycle --------------------------------------------------------- */

static void release(struct label_counter *counter)
{
    pthread_cond_destroy(&counter->woken);
    pthread_mutex_destroy(&counter->mutex);
    free(counter);
}

enum error label_counter_new(struct streams *streams, struct label_counter **ret_counter)
{
    struct label_counter *counter = array_new(1, sizeof(*counter), "the counter of labels");
    if (!counter)
        return ERROR_MEMORY;
    counter->streams = streams;
    pthread_mutex_init(&counter->mutex, NULL);
    pthread_cond_init(&counter->woken, NULL);
    enum error error = thread_start("labels", run, counter, &counter->thread);
    if (!error)
        *ret_counter = counter;
    else
        release(counter);
    return error;
}

void label_counter_free(struct label_counter *counter)
{
    if (!counter)
        return;
    pthread_mutex_lock(&counter->mutex);
    counter->stopping = true;
    pthread_cond_signal(&counter->woken);
    pthread_mutex_unlock(&counter->mutex);
    pthread_join(counter->thread, NULL);
    release(counter);
}

/* ---- asking ------------------------------------------------------------- */

/* Wakes the thread for a stream that it does not follow yet, or that is behind. */
static void follow(struct label_counter *counter, const char *name, bool behind)
{
    pthread_mutex_lock(&counter->mutex);
    struct followed *place = &counter->followed[0];
    for (size_t i = 0; i < LABEL_COUNTER_STREAMS; i++) {
        struct followed *followed = &counter->followed[i];
        if (strcmp(followed->name, name) == 0) {
            place = followed;
            break;
        }
        if (followed->asked_ns < place->asked_ns)
            place = followed;
    }
    bool fresh = strcmp(place->name, name) != 0;
    memcpy(place->name, name, strlen(name) + 1);
    place->asked_ns = clock_now_ns();
    if (fresh || behind) {
        counter->asked = true;
        pthread_cond_signal(&counter->woken);
    }
    pthread_mutex_unlock(&counter->mutex);
}

bool label_counter_is_quick(struct stream *stream)
{
    struct stream_drawn drawn;
    if (stream_drawn(stream, &drawn))
        return true; /* label_counter_ask() fails just as quickly */
    const struct tally_set set = {drawn.epoch, drawn.spans, drawn.count};
    bool quick = tally_is_quick(stream_plan(stream)->tally, &set);
    free(drawn.spans);
    return quick;
}

static enum error count_drawn(struct label_counter *counter, struct stream *stream,
                              const struct stream_drawn *drawn, int64_t limit_ns,
                              struct label_counts *counts)
{
    const struct sampling_plan *plan = stream_plan(stream);
    const struct tally_set set = {drawn->epoch, drawn->spans, drawn->count};
    counts->epoch = drawn->epoch;
    counts->drawn =
        array_new(frame_labels(plan->frame), sizeof(*counts->drawn), "the counts of labels");
    if (!counts->drawn)
        return ERROR_MEMORY;
    enum error error = tally_counts(plan->tally, &set, limit_ns, counts->drawn, &counts->left);
    if (!error && !tally_is_quick(plan->tally, &set))
        follow(counter, stream_definition(stream)->name, counts->left > 0);
    return error;
}

enum error label_counter_ask(struct label_counter *counter, struct stream *stream, int64_t limit_ns,
                             struct label_counts *ret_counts)
{
    struct label_counts counts = {0};
    struct stream_drawn drawn;
    enum error error = stream_drawn(stream, &drawn);
    if (error)
        return error;
    error = count_drawn(counter, stream, &drawn, limit_ns, &counts);
    free(drawn.spans);
    if (error) {
        free(counts.drawn);
        return error;
    }
    *ret_counts = counts;
    return OK;
}
