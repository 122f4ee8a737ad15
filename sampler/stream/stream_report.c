/* SPDX-License-Identifier: MIT */
/* Status, workers, the state of a position, and the draws of an epoch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/stream/lease_events.h"
#include "sampler/stream/stream_private.h"

static enum stream_state state_of(const struct stream *stream)
{
    const struct ledger *ledger = &stream->ledger;
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
        .gaps = intervals_size(&ledger->gaps),
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

enum error stream_failure(struct stream *stream)
{
    return streams_failure(stream->streams);
}

static void name_worker(const struct ledger *ledger, uint32_t worker, struct stream_place *place)
{
    snprintf(place->worker, sizeof(place->worker), "%s",
             worker_table_get(&ledger->workers, worker)->name);
}

/* Another worker has its number. */
static bool is_forgotten(const struct ledger *ledger, const struct lease_done *done)
{
    return lease_history_before(&ledger->history, done) <
           worker_table_get(&ledger->workers, done->worker)->done_since;
}

void stream_where(struct stream *stream, int64_t position, struct stream_place *ret_place)
{
    const struct ledger *ledger = &stream->ledger;
    *ret_place = (struct stream_place){.state = PLACE_AHEAD};
    pthread_mutex_lock(&stream->streams->mutex);
    uint32_t number = lease_set_at(&ledger->leases, position);
    if (number != LEASE_NONE) {
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        if (lease->worker != WORKER_NONE) { /* nobody's: it was released, and is to come */
            ret_place->state = PLACE_LEASED;
            ret_place->seq = lease->seq;
            ret_place->attempt = lease->attempt;
            name_worker(ledger, lease->worker, ret_place);
        }
    } else if (intervals_has(&ledger->skipped, position)) {
        ret_place->state = PLACE_SKIPPED;
    } else if (position < ledger->position && !intervals_has(&ledger->gaps, position)) {
        const struct lease_done *done = lease_history_find(&ledger->history, position);
        ret_place->state = PLACE_DONE;
        if (done && !is_forgotten(ledger, done)) {
            ret_place->seq = done->seq;
            ret_place->attempt = done->attempt;
            name_worker(ledger, done->worker, ret_place);
        }
    }
    pthread_mutex_unlock(&stream->streams->mutex);
}

/* ---- workers ------------------------------------------------------------ */

static int compare_seen(const void *a, const void *b)
{
    const struct worker_record *first = *(const struct worker_record *const *)a;
    const struct worker_record *second = *(const struct worker_record *const *)b;
    if (first->seen_ms != second->seen_ms)
        return first->seen_ms < second->seen_ms ? 1 : -1;
    return strcmp(first->name, second->name);
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
        .last_seen_ms = record->seen_ms < 0 ? -1 : now_ms - record->seen_ms,
    };
    snprintf(worker->name, sizeof(worker->name), "%s", record->name);
    if (record->leases.first == LEASE_NONE)
        return;
    int64_t leased_ms = lease_set_get(&ledger->leases, record->leases.first)->leased_ms;
    worker->oldest_age_ms = leased_ms < 0 ? -1 : now_ms - leased_ms;
}

enum error stream_workers(struct stream *stream, struct stream_worker *ret_workers, size_t room,
                          size_t *ret_count, size_t *ret_known)
{
    const struct ledger *ledger = &stream->ledger;
    int64_t now_ms = stream_clock_ms();
    pthread_mutex_lock(&stream->streams->mutex);
    size_t known = ledger->workers.count;
    const struct worker_record **records =
        array_new(known, sizeof(struct worker_record *), "a stream's workers");
    size_t count = 0;
    for (size_t i = 0; records && i < known; i++) {
        const struct worker_record *record = ledger->workers.records[i];
        if (record->leased > 0 || record->seen_ms >= 0)
            records[count++] = record;
    }
    if (records)
        qsort(records, count, sizeof(struct worker_record *), compare_seen);
    if (count > room)
        count = room;
    for (size_t i = 0; records && i < count; i++)
        fill_worker(ledger, records[i], now_ms, &ret_workers[i]);
    pthread_mutex_unlock(&stream->streams->mutex);
    if (!records)
        return ERROR_MEMORY;
    free(records);
    *ret_count = count;
    *ret_known = known;
    return OK;
}

/* ---- draws of an epoch -------------------------------------------------- */

/* The rest of an epoch, [at, end), that `drawn` does not have yet. */
struct reporting {
    struct stream_drawn *drawn;
    int64_t at, end;
};

/* The epoch that the stream is in, up to its position: never an empty one but at position 0. */
static struct reporting begin(const struct stream *stream, struct stream_drawn *ret_drawn)
{
    const struct batching *batching = &stream->plan->batching;
    int64_t position = stream->ledger.position;
    int64_t end = batching_end(batching);
    if (position > end)
        position = end;
    ret_drawn->epoch = position / batching->epoch_positions;
    if (batching->epochs > 0 && position == end)
        ret_drawn->epoch--;
    return (struct reporting){
        .drawn = ret_drawn, .at = ret_drawn->epoch * batching->epoch_positions, .end = position};
}

static size_t count_within(const struct intervals *intervals, const struct reporting *reporting)
{
    size_t count = 0;
    for (size_t i = intervals_find(intervals, reporting->at);
         i < intervals->count && intervals_at(intervals, i)->begin < reporting->end; i++)
        count++;
    return count;
}

/* Drawn up to `begin`, not drawn from there to `end`. */
static void leave_out(struct reporting *reporting, int64_t begin, int64_t end)
{
    if (begin > reporting->end)
        begin = reporting->end;
    if (begin > reporting->at)
        reporting->drawn->spans[reporting->drawn->count++] =
            (struct interval){reporting->at, begin};
    if (end > reporting->at)
        reporting->at = end;
}

/* Gaps and skipped spans are disjoint, and both ascend. */
static void list_drawn(const struct ledger *ledger, struct reporting *reporting)
{
    const struct intervals *sets[] = {&ledger->gaps, &ledger->skipped};
    size_t next[] = {intervals_find(sets[0], reporting->at),
                     intervals_find(sets[1], reporting->at)};
    for (;;) {
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
            break;
        leave_out(reporting, lower->begin, lower->end);
        next[from]++;
    }
    leave_out(reporting, reporting->end, reporting->end);
}

enum error stream_drawn(struct stream *stream, struct stream_drawn *ret_drawn)
{
    struct stream_drawn drawn = {0};
    const struct ledger *ledger = &stream->ledger;
    pthread_mutex_lock(&stream->streams->mutex);
    struct reporting reporting = begin(stream, &drawn);
    size_t room =
        count_within(&ledger->gaps, &reporting) + count_within(&ledger->skipped, &reporting) + 1;
    drawn.spans = array_new(room, sizeof(*drawn.spans), "what was drawn of an epoch");
    if (drawn.spans)
        list_drawn(ledger, &reporting);
    pthread_mutex_unlock(&stream->streams->mutex);
    if (!drawn.spans)
        return ERROR_MEMORY;
    *ret_drawn = drawn;
    return OK;
}
