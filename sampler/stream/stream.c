/* SPDX-License-Identifier: MIT */
/* Every change reserves room in the journal and in memory, is appended, and only then applied:
 * nothing fails halfway. */
#include "sampler/stream/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "sampler/journal/journal_record.h"
#include "sampler/stream/stream_private.h"

#define GIVE_WAY_NS 50000 /* a waiting thread wakes up meanwhile */
#define STILL_MS 2000     /* so long without a look, though there is one a second: it stood still */
#define AGAIN_MS 2500     /* until all who waited have asked again: loaders pause for up to 2 s */

/* Nobody can renew a lease while the process stands still (SIGSTOP, a paused machine): all would
 * expire at once, and be lent again beside those who hold them. */
int64_t stream_clock_ms(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t looked_ms, clock_ms, goes_on_ms;
    pthread_mutex_lock(&lock);
    int64_t now_ms = clock_now_ns() / 1000000, passed_ms = now_ms - looked_ms;
    if (looked_ms == 0)
        clock_ms = now_ms;
    else if (passed_ms > STILL_MS)
        goes_on_ms = now_ms + AGAIN_MS;
    else if (now_ms >= goes_on_ms)
        clock_ms += passed_ms;
    looked_ms = now_ms;
    now_ms = clock_ms;
    pthread_mutex_unlock(&lock);
    return now_ms;
}

void stream_look_at_clock(void)
{
    (void)stream_clock_ms();
}

/* ---- life --------------------------------------------------------------- */

enum error stream_new(struct streams *streams, struct stream_definition *definition,
                      const struct stream_binding *binding, struct sampling_plan *plan,
                      uint32_t number, int64_t generation, struct stream **ret_stream)
{
    struct stream *stream = array_new(1, sizeof(*stream), "a stream");
    if (!stream) {
        stream_definition_release(definition);
        sampling_plan_put(plan);
        return ERROR_MEMORY;
    }
    stream->streams = streams;
    stream->definition = *definition;
    definition->fields = NULL;
    stream->binding = *binding;
    stream->plan = plan;
    stream->number = number;
    stream->generation = generation;
    atomic_init(&stream->holders, 1);
    pthread_cond_init(&stream->searched, NULL);
    ledger_init(&stream->ledger);
    readers_init(&stream->readers);
    stream->ledger.lease_ms = stream->definition.lease_ms;
    *ret_stream = stream;
    return OK;
}

void stream_take(struct stream *stream)
{
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
}

bool stream_is_large(const struct stream *stream)
{
    const struct ledger *ledger = &stream->ledger;
    return ledger->leases.count + ledger->gaps.count + ledger->skipped.count +
               ledger->workers.count >
           STREAM_LEASES_AT_ONCE;
}

/* Freeing it takes milliseconds, for which others need not wait: streams_sweep() does it. */
static void bury(struct stream *stream)
{
    struct streams *streams = stream->streams;
    pthread_mutex_lock(&streams->mutex);
    stream->next_buried = streams->buried;
    streams->buried = stream;
    pthread_mutex_unlock(&streams->mutex);
}

void stream_put(struct stream *stream)
{
    if (!stream || atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (stream_is_large(stream))
        bury(stream);
    else
        stream_free(stream);
}

void stream_free(struct stream *stream)
{
    ledger_release(&stream->ledger);
    metrics_blocks_release(&stream->metrics);
    readers_release(&stream->readers);
    pthread_cond_destroy(&stream->searched);
    sampling_plan_put(stream->plan);
    stream_definition_release(&stream->definition);
    free(stream);
}

struct metrics_blocks *stream_metrics(struct stream *stream)
{
    return &stream->metrics;
}

struct readers *stream_readers(struct stream *stream)
{
    return &stream->readers;
}

const struct stream_definition *stream_definition(const struct stream *stream)
{
    return &stream->definition;
}

const struct sampling_plan *stream_plan(const struct stream *stream)
{
    return stream->plan;
}

const struct stream_binding *stream_binding(const struct stream *stream)
{
    return &stream->binding;
}

/* ---- changes: the mutex is held ----------------------------------------- */

enum error stream_check_alive(const struct stream *stream)
{
    if (stream->deleted)
        return error_set(ERROR_NOT_FOUND, "stream %s was deleted", stream->definition.name);
    return stream->jumped ? journal_failure(stream->streams->journal) : OK;
}

enum error stream_change(struct stream *stream, struct entry *entry, int64_t now_ms)
{
    struct journal *journal = stream->streams->journal;
    enum error error = OK;
    entry->stream = stream->number;
    if (journal)
        error = journal_reserve(journal, journal_record_bytes(entry_bound_bytes(entry)));
    if (!error)
        error = ledger_prepare(&stream->ledger, entry);
    if (error)
        return error;
    if (journal)
        journal_append(journal, entry);
    ledger_apply(&stream->ledger, entry, now_ms);
    return OK;
}

bool stream_wait(struct streams *streams, struct journal_waiter *waiter)
{
    if (!waiter || !streams->journal || !journal_is_behind(streams->journal))
        return false;
    journal_wait(streams->journal, waiter);
    return true;
}

void stream_give_way(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = GIVE_WAY_NS}, NULL);
}
