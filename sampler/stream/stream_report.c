/* SPDX-License-Identifier: MIT */
/* Status, workers, the state of a position, and the draws of an epoch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/ledger/ledger_past.h"
#include "sampler/stream/lease_events.h"
#include "sampler/stream/stream_private.h"

#define WORKERS_AT_ONCE 128 /* per hold of the mutex */
#define SPANS_AT_ONCE 1024
#define DONE_AT_ONCE 16384 /* batches of the history */

static enum stream_state state_of(const struct stream *stream)
{
    const struct ledger *ledger = &stream->ledger;
    if (!stream->plan)
        return STREAM_UNAVAILABLE;
    if (ledger->position >= batching_end(&stream->plan->batching) && ledger->gaps.count == 0 &&
        ledger->leases.count == 0)
        return STREAM_ENDED;
    return ledger->paused ? STREAM_PAUSED : STREAM_RUNNING;
}

void stream_status(struct stream *stream, struct stream_status *ret_status)
{
    struct ledger *ledger = &stream->ledger;
    struct journal *journal = stream->streams->journal;
    struct lease_events events;
    events.count = 0;
    pthread_mutex_lock(&stream->streams->mutex);
    ledger_expire(ledger, stream_clock_ms());
    lease_events_expired(&events, ledger);
    *ret_status = (struct stream_status){
        .generation = stream->generation,
        .position = ledger->position,
        .epoch = ledger->position / stream->binding.epoch_positions,
        .gaps = ledger->gaps.size,
        .leased = (int64_t)ledger->leases.owned,
        .waiting = (int64_t)(ledger->leases.count - ledger->leases.heap_count),
        .acked = ledger->acked,
        .redelivered = ledger->redelivered,
        .batches = ledger->handed,
        .workers = (int64_t)ledger->workers.count,
        .lease_ms = ledger_lease_ms(ledger),
        .jumps = ledger->jumps,
        .state = state_of(stream),
        .failing = journal && journal_failing(journal),
    };
    pthread_mutex_unlock(&stream->streams->mutex);
    lease_events_log(&events, stream->definition.name);
}

bool stream_has_much(struct stream *stream)
{
    pthread_mutex_lock(&stream->streams->mutex);
    bool has_much = stream->ledger.past || stream_is_large(stream);
    pthread_mutex_unlock(&stream->streams->mutex);
    return has_much;
}

static void name_worker(const struct ledger *ledger, uint32_t worker, struct stream_place *place)
{
    snprintf(place->worker, sizeof(place->worker), "%s",
             worker_table_get(&ledger->workers, worker)->name);
}

static bool is_skipped(const struct ledger *ledger, int64_t position)
{
    return intervals_has(&ledger->skipped, position) ||
           (ledger->past && ledger_past_skips(ledger->past, position));
}

/* Names the worker, unless another worker has its number now. The mutex is held, but not between
 * pieces: what is no longer known then is omitted. */
static void name_who_did(struct stream *stream, int64_t position, struct stream_place *place)
{
    const struct ledger *ledger = &stream->ledger;
    uint64_t number = LEASE_HISTORY_NEWEST;
    for (;;) {
        const struct lease_done *done =
            lease_history_find(&ledger->history, position, DONE_AT_ONCE, &number);
        if (done && number >= worker_table_get(&ledger->workers, done->worker)->done_since) {
            place->seq = done->seq;
            place->attempt = done->attempt;
            name_worker(ledger, done->worker, place);
        }
        if (done || number == 0)
            return;
        pthread_mutex_unlock(&stream->streams->mutex);
        stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
    }
}

void stream_where(struct stream *stream, int64_t position, struct stream_place *ret_place)
{
    const struct ledger *ledger = &stream->ledger;
    *ret_place = (struct stream_place){.state = PLACE_AHEAD};
    pthread_mutex_lock(&stream->streams->mutex);
    uint32_t number = lease_set_at(&ledger->leases, position);
    if (number != LEASE_NONE) {
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        if (lease->worker != WORKER_NONE) { /* else it was released, and will be redelivered */
            ret_place->state = PLACE_LEASED;
            ret_place->seq = lease->seq;
            ret_place->attempt = lease->attempt;
            name_worker(ledger, lease->worker, ret_place);
        }
    } else if (is_skipped(ledger, position)) {
        ret_place->state = PLACE_SKIPPED;
    } else if (position < ledger->position && !intervals_has(&ledger->gaps, position)) {
        ret_place->state = PLACE_DONE;
        name_who_did(stream, position, ret_place);
    }
    pthread_mutex_unlock(&stream->streams->mutex);
}

/* ---- workers ------------------------------------------------------------ */

/* Last seen first; workers not seen since the start come last. */
static int compare_seen(const void *a, const void *b)
{
    const struct stream_worker *first = a;
    const struct stream_worker *second = b;
    if (first->last_seen_ms != second->last_seen_ms)
        return (uint64_t)first->last_seen_ms < (uint64_t)second->last_seen_ms ? -1 : 1;
    return strcmp(first->name, second->name);
}

/* 0 for what came after `now_ms` was read: a report takes a while. */
static int64_t age_ms(int64_t since_ms, int64_t now_ms)
{
    return since_ms < now_ms ? now_ms - since_ms : 0;
}

static void fill_worker(const struct ledger *ledger, const struct worker_record *record,
                        int64_t now_ms, struct stream_worker *worker)
{
    *worker = (struct stream_worker){
        .leased = record->leased,
        .oldest_age_ms = -1,
        .acked = record->done,
        .redelivered = record->redelivered,
        .batches_per_s = worker_record_rate(record, now_ms),
        .last_seen_ms = record->seen_ms < 0 ? -1 : age_ms(record->seen_ms, now_ms),
    };
    snprintf(worker->name, sizeof(worker->name), "%s", record->name);
    if (record->leases.first == LEASE_NONE)
        return;
    int64_t leased_ms = lease_set_get(&ledger->leases, record->leases.first)->leased_ms;
    worker->oldest_age_ms = leased_ms < 0 ? -1 : age_ms(leased_ms, now_ms);
}

/* WORKERS_AT_ONCE workers from *at on; returns their number. *ret_known: how many there are. */
static size_t read_workers(const struct stream *stream, size_t *at, int64_t now_ms,
                           struct stream_worker *workers, size_t *ret_known)
{
    const struct ledger *ledger = &stream->ledger;
    size_t count = 0;
    pthread_mutex_lock(&stream->streams->mutex);
    size_t known = ledger->workers.count;
    for (size_t end = *at + WORKERS_AT_ONCE; *at < known && *at < end; ++*at) {
        const struct worker_record *record = worker_table_get(&ledger->workers, (uint32_t)*at);
        if (record->leased > 0 || record->seen_ms >= 0)
            fill_worker(ledger, record, now_ms, &workers[count++]);
    }
    pthread_mutex_unlock(&stream->streams->mutex);
    *ret_known = known;
    return count;
}

/* heap[0] sorts last, heap[i] not before heap[2 i + 1] and heap[2 i + 2]. A replaced heap[at] moves
 * up or down to its place. */
static void heap_settle(struct stream_worker *heap, size_t count, size_t at,
                        const struct stream_worker *one)
{
    for (; at > 0 && compare_seen(one, &heap[(at - 1) / 2]) > 0; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && compare_seen(&heap[child], &heap[child + 1]) < 0)
            child++;
        if (compare_seen(one, &heap[child]) >= 0)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = *one;
}

enum error stream_workers(struct stream *stream, struct stream_worker *ret_workers, size_t room,
                          size_t *ret_count, size_t *ret_known)
{
    int64_t now_ms = stream_clock_ms();
    size_t at = 0, count = 0, known;
    struct stream_worker *some =
        array_new(WORKERS_AT_ONCE, sizeof(*some), "some of a stream's workers");
    if (!some)
        return ERROR_MEMORY;
    do {
        size_t more = read_workers(stream, &at, now_ms, some, &known);
        for (size_t i = 0; i < more; i++) {
            if (count < room) {
                count++;
                heap_settle(ret_workers, count, count - 1, &some[i]);
            } else if (room > 0 && compare_seen(&some[i], &ret_workers[0]) < 0) {
                heap_settle(ret_workers, count, 0, &some[i]);
            }
        }
        if (at < known)
            stream_give_way();
    } while (at < known);
    free(some);
    if (count > 0)
        qsort(ret_workers, count, sizeof(*ret_workers), compare_seen);
    *ret_count = count;
    *ret_known = known;
    return OK;
}

/* ---- draws of an epoch -------------------------------------------------- */

/* The rest of an epoch, [at, end), not in `drawn` yet. */
struct reporting {
    struct stream_drawn drawn;
    int64_t at, end;
    int64_t jumps; /* as they were at the start */
};

/* The stream's current epoch, up to its position: never an empty one except at position 0. */
static void begin(const struct stream *stream, struct reporting *reporting)
{
    const struct batching *batching = &stream->plan->batching;
    int64_t position = stream->ledger.position;
    int64_t end = batching_end(batching);
    if (position > end)
        position = end;
    int64_t epoch = position / batching->epoch_positions;
    if (batching->epochs > 0 && position == end)
        epoch--;
    reporting->drawn.epoch = epoch;
    reporting->drawn.count = 0;
    reporting->at = epoch * batching->epoch_positions;
    reporting->end = position;
    reporting->jumps = stream->ledger.jumps;
}

/* Drawn up to `begin`, not drawn between there and `end`. */
static void leave_out(struct reporting *reporting, int64_t begin, int64_t end)
{
    if (begin > reporting->end)
        begin = reporting->end;
    if (begin > reporting->at)
        reporting->drawn.spans[reporting->drawn.count++] = (struct interval){reporting->at, begin};
    if (end > reporting->at)
        reporting->at = end;
}

/* Gaps and skipped spans are disjoint, and both ascend. Lists at most SPANS_AT_ONCE; false: there
 * are no more. */
static bool list_some(const struct ledger *ledger, struct reporting *reporting)
{
    const struct intervals *sets[] = {&ledger->gaps, &ledger->skipped};
    size_t next[] = {intervals_find(sets[0], reporting->at),
                     intervals_find(sets[1], reporting->at)};
    for (int left = SPANS_AT_ONCE; left > 0; left--) {
        const struct interval *lower = NULL;
        size_t from = 0;
        for (size_t i = 0; i < 2; i++) {
            const struct interval *first =
                next[i] < sets[i]->count ? intervals_at(sets[i], next[i]) : NULL;
            if (first && (!lower || first->begin < lower->begin)) {
                lower = first;
                from = i;
            }
        }
        if (!lower || lower->begin >= reporting->end)
            return false;
        leave_out(reporting, lower->begin, lower->end);
        next[from]++;
    }
    return true;
}

/* Some spans at a time: draws made meanwhile may or may not be included. A seek is settled
 * first. */
enum error stream_drawn(struct stream *stream, struct stream_drawn *ret_drawn)
{
    struct reporting reporting = {.jumps = -1};
    void *spans = NULL;
    size_t capacity = 0;
    bool more = true;
    while (more) {
        enum error error = array_grow(&spans, &capacity, reporting.drawn.count + SPANS_AT_ONCE + 1,
                                      sizeof(struct interval), "what was drawn of an epoch");
        reporting.drawn.spans = spans;
        if (error) {
            free(spans);
            return error;
        }
        if (reporting.jumps >= 0)
            stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
        if (reporting.jumps != stream->ledger.jumps)
            begin(stream, &reporting);
        more = stream->ledger.past || list_some(&stream->ledger, &reporting);
        pthread_mutex_unlock(&stream->streams->mutex);
    }
    leave_out(&reporting, reporting.end, reporting.end);
    *ret_drawn = reporting.drawn;
    return OK;
}
