/* SPDX-License-Identifier: MIT */
/*
 * Draws, and the acks that come with them or alone: planned on the ledger and applied by
 * stream_change(), all under the streams' mutex.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "sampler/ledger/conflicts.h"
#include "sampler/stream/lease_events.h"
#include "sampler/stream/stream_private.h"

/* Positions examined per request, if they can only be counted: some tenths of a second. */
#define SEARCH_POSITIONS (INT64_C(1) << 27)
#define SEARCH_WAIT_MS 500 /* for another call's search */

static const struct stream_batch NO_BATCH = {.expires_ms = -1};

/* ---- acks, as part of a pull and alone ---------------------------------- */

/* State of stream_draw(), stream_peek() or stream_ack() while the mutex is held. */
struct drawing {
    struct stream *stream;
    const struct ledger_pull *pull;
    const int64_t *acks; /* [ack_count]: the pull's, ascending */
    size_t ack_count;
    uint32_t worker; /* the pull's, looked up each time the mutex is taken */
    int64_t jumps;   /* of the ledger then: seeks and restores */
    int64_t now_ms;
    int64_t budget; /* positions that may still be examined without the mutex */
    struct journal_waiter *waiter;
    struct lease_events *events;
    struct stream_batch *batch; /* to be filled in */
};

static void note_seen(const struct drawing *drawing)
{
    if (drawing->worker != WORKER_NONE)
        worker_table_see(&drawing->stream->ledger.workers, drawing->worker, drawing->now_ms);
}

static void find_worker(struct drawing *drawing)
{
    drawing->now_ms = stream_clock_ms();
    drawing->worker = ledger_worker(&drawing->stream->ledger, drawing->pull->worker);
    drawing->jumps = drawing->stream->ledger.jumps;
}

static int compare_seqs(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a;
    int64_t other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/* A draw whose pair is refused for good has no effect: it acks nothing. One that has to wait, or
 * finds the stream paused, has acked: work that is done stays done. */
static enum error ack(const struct drawing *drawing)
{
    const struct ledger_pull *pull = drawing->pull;
    size_t live;
    int64_t mean_ms;
    enum error error = ledger_plan_acks(&drawing->stream->ledger, pull, drawing->worker,
                                        drawing->now_ms, &live, &mean_ms);
    if (!error && pull->size > 0)
        error = ledger_plan_pair(&drawing->stream->ledger, pull, drawing->worker, drawing->now_ms);
    if (error)
        return error;
    note_seen(drawing);
    if (live == 0)
        return OK; /* all are acked already */
    struct entry entry = {
        .type = ENTRY_ACK,
        .worker = drawing->worker,
        .list = drawing->acks,
        .count = drawing->ack_count,
        .value = mean_ms,
    };
    return stream_change(drawing->stream, &entry, drawing->now_ms);
}

size_t stream_sort_seqs(int64_t *seqs, size_t count)
{
    size_t kept = 0;
    qsort(seqs, count, sizeof(*seqs), compare_seqs);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || seqs[kept - 1] != seqs[i])
            seqs[kept++] = seqs[i];
    }
    return kept;
}

/* Sorts them, for one union with those acked before. Without the mutex; `sorted` has room for
 * STREAM_LEASES_AT_ONCE. */
static void sort_acks(struct drawing *drawing, int64_t *sorted)
{
    const struct ledger_pull *pull = drawing->pull;
    bool ascends = true;
    for (size_t i = 1; i < pull->ack_count && ascends; i++)
        ascends = pull->acks[i - 1] < pull->acks[i];
    drawing->acks = pull->acks;
    drawing->ack_count = pull->ack_count;
    if (ascends || pull->ack_count > STREAM_LEASES_AT_ONCE)
        return;
    memcpy(sorted, pull->acks, pull->ack_count * sizeof(*sorted));
    drawing->acks = sorted;
    drawing->ack_count = stream_sort_seqs(sorted, pull->ack_count);
}

enum error stream_ack_now(struct stream *stream, const struct ledger_pull *pull)
{
    struct drawing drawing = {
        .stream = stream, .pull = pull, .acks = pull->acks, .ack_count = pull->ack_count};
    find_worker(&drawing);
    return ack(&drawing);
}

enum error stream_ack(struct stream *stream, const char *worker, const int64_t *seqs, size_t count,
                      struct journal_waiter *waiter, bool *ret_wait)
{
    const struct ledger_pull pull = {.worker = worker, .acks = seqs, .ack_count = count};
    struct drawing drawing = {.stream = stream, .pull = &pull};
    int64_t sorted[STREAM_LEASES_AT_ONCE];
    *ret_wait = false;
    sort_acks(&drawing, sorted);
    journal_waiter_clear(waiter);
    pthread_mutex_lock(&stream->streams->mutex);
    find_worker(&drawing);
    enum error error = stream_check_alive(stream);
    if (!error)
        error = ack(&drawing);
    if (!error || error == ERROR_CONFLICT)
        *ret_wait = stream_wait(stream->streams, waiter);
    pthread_mutex_unlock(&stream->streams->mutex);
    return error;
}

/* ---- draws -------------------------------------------------------------- */

/* Adds the stream's name, which the plan does not know. */
static enum error name_paused(const struct stream *stream)
{
    const char *name = stream->definition.name;
    enum error error =
        error_set(ERROR_CONFLICT, "stream \"%s\" is paused; POST /streams/%s/resume lets it go on",
                  name, name);
    return error_set_kind(error, PROBLEM_PAUSED);
}

static bool is_paused(enum error error)
{
    return error == ERROR_CONFLICT && error_kind() && strcmp(error_kind(), PROBLEM_PAUSED) == 0;
}

/* Plans until there is a batch: a piece of a gap may contain no unit. The acks are applied already,
 * or count as if they were. */
static enum error plan(const struct drawing *drawing, struct ledger_plan *ret_plan)
{
    struct stream *stream = drawing->stream;
    for (;;) {
        enum error error =
            ledger_plan_draw(&stream->ledger, &stream->plan->batching, &stream->search,
                             drawing->pull, drawing->worker, drawing->now_ms, ret_plan);
        if (stream->ledger.expired_count > 0)
            lease_events_expired(drawing->events, &stream->ledger);
        if (is_paused(error))
            return name_paused(stream);
        if (error || ret_plan->kind != PLAN_PIECE || ret_plan->span.units > 0)
            return error;
        struct entry entry = {.type = ENTRY_DRAW,
                              .first = ret_plan->span.first,
                              .positions = ret_plan->span.positions,
                              .worker = -1};
        error = stream_change(stream, &entry, drawing->now_ms);
        if (error)
            return error;
    }
}

/* A new name is a separate entry: without a batch it does no harm. */
static enum error know_worker(struct drawing *drawing)
{
    const char *name = drawing->pull->worker;
    const struct worker_table *workers = &drawing->stream->ledger.workers;
    if (!name || drawing->worker != WORKER_NONE)
        return OK;
    uint32_t number;
    enum error error = worker_table_room(workers, name, &number);
    if (error)
        return error;
    struct entry entry = {.type = ENTRY_WORKER,
                          .worker = number < workers->count ? (int64_t)number : -1,
                          .seq = worker_table_forgotten_below(workers, name),
                          .text = name,
                          .text_bytes = strlen(name)};
    error = stream_change(drawing->stream, &entry, drawing->now_ms);
    if (!error)
        drawing->worker = number;
    return error;
}

static enum error take_batch(struct drawing *drawing, const struct ledger_plan *plan)
{
    const struct ledger_pull *pull = drawing->pull;
    enum error error = know_worker(drawing);
    if (error)
        return error;
    struct entry entry = {
        .type = plan->kind == PLAN_REDELIVER ? ENTRY_REDRAW : ENTRY_DRAW,
        .first = plan->span.first,
        .worker = pull->worker ? (int64_t)drawing->worker : -1,
        .seq = pull->worker ? pull->seq : 0,
        .asked = pull->worker ? pull->size : 0,
        .value = plan->mean_ms,
    };
    if (entry.type == ENTRY_DRAW) {
        entry.positions = plan->span.positions;
        entry.units = plan->span.units;
    }
    return stream_change(drawing->stream, &entry, drawing->now_ms);
}

static void fill_batch(const struct drawing *drawing, const struct ledger_plan *plan)
{
    struct stream_batch *batch = drawing->batch;
    batch->span = plan->span;
    batch->attempt = plan->attempt;
    if (drawing->pull->worker) {
        batch->attempt += plan->attempt == 0; /* its first */
        batch->expires_ms =
            plan->kind == PLAN_KEPT ? plan->expires_ms : ledger_lease_ms(&drawing->stream->ledger);
    }
    batch->redelivered = batch->attempt > 1;
}

/* Records what to undo if it cannot be kept: draws that count as done once answered, and a move to
 * the end. A lease stays: its worker asks again and gets it. */
static void remember_draw(const struct drawing *drawing, const struct ledger_plan *plan)
{
    struct journal_waiter *waiter = drawing->waiter;
    if (!waiter || (drawing->pull->worker && plan->kind != PLAN_END))
        return;
    journal_waiter_remember(waiter, drawing->stream, UNDO_DRAW);
    waiter->jumps = drawing->stream->ledger.jumps;
    waiter->before = drawing->stream->ledger.position;
    waiter->first = plan->span.first;
    waiter->positions = plan->span.positions;
    waiter->units = plan->span.units;
    waiter->attempt = 0;
    waiter->worker = -1;
    waiter->piece = plan->kind == PLAN_PIECE;
    if (plan->kind != PLAN_REDELIVER)
        return;
    const struct lease *lease = lease_set_get(&drawing->stream->ledger.leases, plan->lease);
    waiter->attempt = lease->attempt;
    if (lease->worker == WORKER_NONE)
        return;
    waiter->worker = lease->worker;
    waiter->seq = lease->seq;
    waiter->asked = lease->asked;
}

/* Positions that tail `drop` skips at the end count as drawn: afterwards the stream is at its
 * end. */
static enum error move_to_end(const struct drawing *drawing, const struct ledger_plan *plan)
{
    if (plan->span.first <= drawing->stream->ledger.position)
        return OK;
    struct entry entry = {.type = ENTRY_DRAW, .first = plan->span.first, .worker = -1};
    remember_draw(drawing, plan);
    enum error error = stream_change(drawing->stream, &entry, drawing->now_ms);
    if (error)
        journal_waiter_clear(drawing->waiter);
    return error;
}

/* Executes the plan. */
static enum error draw(struct drawing *drawing, const struct ledger_plan *plan)
{
    struct lease_events *events = drawing->events;
    size_t before = events->count;
    if (plan->kind == PLAN_REDELIVER)
        lease_events_redelivered(events, &drawing->stream->ledger, plan, drawing->pull);
    if (plan->kind != PLAN_KEPT)
        remember_draw(drawing, plan);
    enum error error = plan->kind == PLAN_KEPT ? OK : take_batch(drawing, plan);
    if (error) {
        journal_waiter_clear(drawing->waiter);
        events->count = before;
        return error;
    }
    fill_batch(drawing, plan);
    note_seen(drawing);
    return OK;
}

/* Draws, or with `peeks` only tells what a draw would return. */
static enum error plan_and_draw(struct drawing *drawing, bool peeks)
{
    struct ledger_plan planned;
    enum error error = plan(drawing, &planned);
    if (error)
        return error;
    if (planned.kind == PLAN_END) {
        error = peeks ? OK : move_to_end(drawing, &planned);
        return error ? error : ERROR_END;
    }
    if (planned.span.units > drawing->pull->room)
        drawing->batch->need = planned.span.units;
    else if (peeks)
        fill_batch(drawing, &planned);
    else
        error = draw(drawing, &planned);
    return error;
}

/* One search per stream at a time. False: another one takes too long. The mutex is held. */
static bool wait_for_search(struct stream *stream)
{
    struct timespec deadline = clock_timespec(clock_deadline_ns(SEARCH_WAIT_MS));
    int error = 0;
    while (stream->searches && error != ETIMEDOUT)
        error = pthread_cond_clockwait(&stream->searched, &stream->streams->mutex, CLOCK_MONOTONIC,
                                       &deadline);
    return !stream->searches;
}

/* The mutex is held before and after, but not meanwhile: others draw from their streams. False:
 * time is up; what was found is kept. */
static bool search_on(struct stream *stream, int64_t *budget)
{
    if (!wait_for_search(stream))
        return false;
    struct batching_search search = stream->search;
    if (search.done || search.size == 0 || *budget <= 0)
        return search.done;
    stream->searches = true;
    pthread_mutex_unlock(&stream->streams->mutex);
    (void)batching_search_run(&search, budget);
    pthread_mutex_lock(&stream->streams->mutex);
    stream->searches = false;
    pthread_cond_broadcast(&stream->searched);
    if (batching_search_is_behind(&stream->search, &search))
        stream->search = search;
    return search.done;
}

static enum error refuse_sought(void)
{
    return error_set(ERROR_UNAVAILABLE, "the stream was sought or restored meanwhile; ask again");
}

/* Repeats plan_and_draw() as needed. A batch that is too far is treated like one not yet available:
 * the caller retries; also after a seek in between, kept or not, which may have removed the pull's
 * acks. */
static enum error draw_searching(struct drawing *drawing, bool peeks)
{
    struct stream *stream = drawing->stream;
    for (;;) {
        enum error error = stream_check_alive(stream);
        if (!error)
            error = plan_and_draw(drawing, peeks);
        if (error != ERROR_UNAVAILABLE)
            return error;
        drawing->budget -= LEDGER_PLAN_POSITIONS;
        bool is_found = search_on(stream, &drawing->budget);
        if (stream->ledger.jumps != drawing->jumps)
            return refuse_sought();
        if (!is_found) {
            (void)ledger_plan_unfinished(&stream->search);
            return ERROR_TIMEOUT;
        }
        find_worker(drawing); /* the mutex was released */
    }
}

/* Draws further batches, for the seqs after the pull's own, until one is not available. All are
 * from one state of the stream: the mutex is held, except during a search. Returns their number. */
static size_t draw_more(const struct drawing *first, size_t most)
{
    struct drawing drawing = *first;
    struct ledger_pull next = *first->pull;
    size_t count = 0;
    next.ack_count = 0;
    drawing.pull = &next;
    for (; count < most; count++) {
        next.seq++;
        *++drawing.batch = NO_BATCH;
        if (draw_searching(&drawing, false) || drawing.batch->need > 0)
            break;
    }
    return count;
}

enum error stream_draw_several(struct stream *stream, const struct ledger_pull *pull, size_t most,
                               struct journal_waiter *waiter, struct stream_batch ret_batches[],
                               size_t *ret_count, bool *ret_wait)
{
    struct lease_events events;
    struct drawing drawing = {.stream = stream,
                              .pull = pull,
                              .budget = SEARCH_POSITIONS,
                              .waiter = waiter,
                              .events = &events,
                              .batch = ret_batches};
    events.count = 0;
    *ret_wait = false;
    *ret_count = 0;
    *ret_batches = NO_BATCH;
    journal_waiter_clear(waiter);
    int64_t sorted[STREAM_LEASES_AT_ONCE];
    enum error error = batching_check_size(&stream->plan->batching, pull->size);
    if (error)
        return error;
    if (pull->ack_count > 0)
        sort_acks(&drawing, sorted);
    pthread_mutex_lock(&stream->streams->mutex);
    find_worker(&drawing);
    error = stream_check_alive(stream);
    if (!error && pull->ack_count > 0)
        error = ack(&drawing);
    bool has_acked = !error && (pull->ack_count > 0 || pull->has_acked);
    if (!error)
        error = draw_searching(&drawing, false);
    if (!error && ret_batches->need == 0)
        *ret_count = 1 + draw_more(&drawing, most - 1);
    if (!error && stream->ledger.jumps != drawing.jumps) { /* what it drew may be gone */
        error = refuse_sought();
        *ret_count = 0;
    }
    if (*ret_count > 0 || error == ERROR_END || error == ERROR_CONFLICT || (error && has_acked))
        *ret_wait = stream_wait(stream->streams, waiter);
    pthread_mutex_unlock(&stream->streams->mutex);
    if (events.count > 0)
        lease_events_log(&events, stream->definition.name);
    return error;
}

enum error stream_draw(struct stream *stream, const struct ledger_pull *pull,
                       struct journal_waiter *waiter, struct stream_batch *ret_batch,
                       bool *ret_wait)
{
    size_t count;
    return stream_draw_several(stream, pull, 1, waiter, ret_batch, &count, ret_wait);
}

/* The result that ack() would have. */
static enum error judge_acks(const struct drawing *drawing)
{
    size_t live;
    int64_t mean_ms;
    enum error error = stream_check_alive(drawing->stream);
    if (error || drawing->pull->ack_count == 0)
        return error;
    return ledger_plan_acks(&drawing->stream->ledger, drawing->pull, drawing->worker,
                            drawing->now_ms, &live, &mean_ms);
}

enum error stream_peek(struct stream *stream, const struct ledger_pull *pull,
                       struct stream_batch *ret_batch)
{
    struct lease_events events;
    struct drawing drawing = {.stream = stream,
                              .pull = pull,
                              .budget = SEARCH_POSITIONS,
                              .events = &events,
                              .batch = ret_batch};
    events.count = 0;
    *ret_batch = NO_BATCH;
    enum error error = batching_check_size(&stream->plan->batching, pull->size);
    if (error)
        return error;
    pthread_mutex_lock(&stream->streams->mutex);
    find_worker(&drawing);
    error = judge_acks(&drawing);
    if (!error)
        error = draw_searching(&drawing, true);
    pthread_mutex_unlock(&stream->streams->mutex);
    if (events.count > 0)
        lease_events_log(&events, stream->definition.name);
    return error;
}
