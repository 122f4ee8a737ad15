/* SPDX-License-Identifier: MIT */
/*
 * Acks, extensions and releases of many leases, a few per hold of the mutex. An ack or an extension
 * that meets a conflict still applies to none of its seqs:
 *
 *   check   are they this worker's? Nothing moves
 *   hold    their deadlines go far away, so that nobody else gets one of them meanwhile; where one
 *           was lost since it was checked, those before it get their own deadlines back
 *   ack     piece by piece, each an entry of the journal, as a small ack is one; if the journal
 *           refuses one, those before it stay acked, and the others get their own deadlines back
 *
 * While leases are held nothing removes one: a release by the same worker, a seek and a restore are
 * refused for that moment (stream_check_holds()). An ack that could not be made durable still stays
 * applied, as everywhere; power loss may leave the first pieces of an ack that was not answered.
 * A release that is refused midway keeps its first pieces: it is repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/ledger/ledger_plan.h"
#include "sampler/stream/stream_private.h"

#define HOLD_MS INT64_C(3600000) /* longer than all pieces take */
#define WAITED INT64_C(-1)       /* a deadline: it had expired, and waited */
#define ABSENT INT64_C(-2)       /* a deadline: it was acked already */

struct many {
    struct stream *stream;
    bool extends;
    struct ledger_pull all;
    int64_t *deadlines_ms; /* [all.ack_count], the previous ones */
    struct stream_hold hold;
};

/* Works on some of the seqs; `deadlines_ms` are theirs. The mutex is held. */
typedef enum error piece(const struct many *many, const struct ledger_pull *some,
                         int64_t *deadlines_ms);

/* *ret_done: for how many it was OK. */
static enum error each_piece(const struct many *many, piece *work, size_t *ret_done)
{
    struct stream *stream = many->stream;
    enum error error = OK;
    size_t done = 0;
    while (!error && done < many->all.ack_count) {
        struct ledger_pull some = many->all;
        some.acks += done;
        some.ack_count -= done;
        if (some.ack_count > STREAM_LEASES_AT_ONCE)
            some.ack_count = STREAM_LEASES_AT_ONCE;
        if (done > 0)
            stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
        error = stream_check_alive(stream);
        if (!error)
            error = work(many, &some, many->deadlines_ms + done);
        pthread_mutex_unlock(&stream->streams->mutex);
        if (!error)
            done += some.ack_count;
    }
    *ret_done = done;
    return error;
}

/* ---- acks and extensions ------------------------------------------------ */

static enum error check(const struct many *many, const struct ledger_pull *some,
                        int64_t *deadlines_ms)
{
    const struct ledger *ledger = &many->stream->ledger;
    uint32_t worker = ledger_worker(ledger, some->worker);
    size_t live;
    int64_t mean_ms;
    (void)deadlines_ms;
    if (many->extends)
        return ledger_plan_extend(ledger, some, worker);
    return ledger_plan_acks(ledger, some, worker, stream_clock_ms(), &live, &mean_ms);
}

static enum error hold(const struct many *many, const struct ledger_pull *some,
                       int64_t *deadlines_ms)
{
    struct ledger *ledger = &many->stream->ledger;
    uint32_t worker = ledger_worker(ledger, some->worker);
    int64_t until_ms = stream_clock_ms() + (many->extends ? ledger_lease_ms(ledger) : HOLD_MS);
    enum error error = check(many, some, NULL);
    for (size_t i = 0; i < some->ack_count && !error; i++) {
        uint32_t number = lease_set_find(&ledger->leases, worker, some->acks[i]);
        deadlines_ms[i] = ABSENT;
        if (number == LEASE_NONE)
            continue;
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        deadlines_ms[i] = lease->waits ? WAITED : lease->deadline_ms;
        lease_set_start(&ledger->leases, number, lease->leased_ms, until_ms);
    }
    return error;
}

static enum error let_go(const struct many *many, const struct ledger_pull *some,
                         int64_t *deadlines_ms)
{
    struct lease_set *leases = &many->stream->ledger.leases;
    uint32_t worker = ledger_worker(&many->stream->ledger, some->worker);
    for (size_t i = 0; i < some->ack_count; i++) {
        uint32_t number = lease_set_find(leases, worker, some->acks[i]);
        if (number == LEASE_NONE || deadlines_ms[i] == ABSENT)
            continue;
        if (deadlines_ms[i] == WAITED)
            lease_set_wait(leases, number);
        else
            lease_set_start(leases, number, lease_set_get(leases, number)->leased_ms,
                            deadlines_ms[i]);
    }
    return OK;
}

static enum error ack(const struct many *many, const struct ledger_pull *some,
                      int64_t *deadlines_ms)
{
    (void)deadlines_ms;
    return stream_ack_now(many->stream, some);
}

/* Returns the error, regardless of the release of the holds. */
static enum error hold_and_ack(struct many *many)
{
    struct error_report report;
    size_t held, done;
    enum error error = each_piece(many, hold, &held);
    if (!error && !many->extends)
        error = each_piece(many, ack, &done);
    if (!error)
        return OK;
    error_report_take(error, &report);
    many->all.ack_count = held;
    (void)each_piece(many, let_go, &done);
    return error_restore(&report);
}

static void join_holds(struct many *many)
{
    pthread_mutex_lock(&many->stream->streams->mutex);
    many->hold = (struct stream_hold){.next = many->stream->holds, .worker = many->all.worker};
    many->stream->holds = &many->hold;
    pthread_mutex_unlock(&many->stream->streams->mutex);
}

static void leave_holds(struct many *many)
{
    pthread_mutex_lock(&many->stream->streams->mutex);
    struct stream_hold **link = &many->stream->holds;
    while (*link != &many->hold)
        link = &(*link)->next;
    *link = many->hold.next;
    pthread_mutex_unlock(&many->stream->streams->mutex);
}

/* `sorted` has room for the seqs, many->deadlines_ms for as many. */
static enum error ack_or_extend(struct many *many, int64_t *sorted)
{
    size_t done;
    enum error error = each_piece(many, check, &done); /* in the given order: names the first */
    if (error)
        return error;
    memcpy(sorted, many->all.acks, many->all.ack_count * sizeof(*sorted));
    many->all.ack_count = stream_sort_seqs(sorted, many->all.ack_count);
    many->all.acks = sorted;
    join_holds(many);
    error = hold_and_ack(many);
    leave_holds(many);
    return error;
}

static enum error begin(struct stream *stream, bool extends, const char *worker,
                        const int64_t *seqs, size_t count)
{
    struct many many = {.stream = stream,
                        .extends = extends,
                        .all = {.worker = worker, .acks = seqs, .ack_count = count}};
    int64_t *sorted = array_new(count, sizeof(*sorted), "the seqs of a request");
    many.deadlines_ms = array_new(count, sizeof(*many.deadlines_ms), "the seqs of a request");
    enum error error = sorted && many.deadlines_ms ? ack_or_extend(&many, sorted) : ERROR_MEMORY;
    free(many.deadlines_ms);
    free(sorted);
    return error;
}

enum error stream_ack_many(struct stream *stream, const char *worker, const int64_t *seqs,
                           size_t count)
{
    return begin(stream, false, worker, seqs, count);
}

enum error stream_check_pair(struct stream *stream, const struct ledger_pull *pull)
{
    pthread_mutex_lock(&stream->streams->mutex);
    enum error error = stream_check_alive(stream);
    if (!error)
        error = ledger_plan_pair(&stream->ledger, pull,
                                 ledger_worker(&stream->ledger, pull->worker), stream_clock_ms());
    pthread_mutex_unlock(&stream->streams->mutex);
    return error;
}

enum error stream_extend_many(struct stream *stream, const char *worker, const int64_t *seqs,
                              size_t count)
{
    return begin(stream, true, worker, seqs, count);
}

enum error stream_check_holds(const struct stream *stream, const char *worker)
{
    for (const struct stream_hold *hold = stream->holds; hold; hold = hold->next) {
        if (!worker || strcmp(hold->worker, worker) == 0)
            return error_set(ERROR_UNAVAILABLE,
                             "worker=%s acks or extends many batches at this moment; ask again",
                             hold->worker);
    }
    return OK;
}

/* ---- releases ----------------------------------------------------------- */

/* Releases at most `most` of its leases, oldest first; returns their number. The mutex is held. */
static enum error release_some(struct stream *stream, uint32_t worker, size_t most,
                               size_t *ret_released)
{
    const struct ledger *ledger = &stream->ledger;
    const struct worker_record *record = worker_table_get(&ledger->workers, worker);
    int64_t seqs[STREAM_LEASES_AT_ONCE];
    size_t count = 0;
    for (uint32_t number = record->leases.first;
         number != LEASE_NONE && count < most && count < STREAM_LEASES_AT_ONCE; count++) {
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        seqs[count] = lease->seq;
        number = lease->links[LEASE_WORKER].after;
    }
    struct entry entry = {.type = ENTRY_RELEASE, .worker = worker};
    if (count < (size_t)record->leased) {
        entry.list = seqs;
        entry.count = count;
    }
    enum error error = count > 0 ? stream_change(stream, &entry, stream_clock_ms()) : OK;
    if (!error)
        *ret_released = count;
    return error;
}

/* Releases what it has now, not what it leases meanwhile. */
enum error stream_release_many(struct stream *stream, const char *worker, int64_t *ret_released)
{
    struct ledger *ledger = &stream->ledger;
    int64_t released = 0, all = INT64_MAX;
    enum error error = OK;
    while (!error && released < all) {
        size_t some = 0;
        if (released > 0)
            stream_give_way();
        pthread_mutex_lock(&stream->streams->mutex);
        error = stream_check_alive(stream);
        if (!error)
            error = stream_check_holds(stream, worker);
        uint32_t number = ledger_worker(ledger, worker);
        if (all == INT64_MAX)
            all = number == WORKER_NONE ? 0 : worker_table_get(&ledger->workers, number)->leased;
        if (!error && number != WORKER_NONE) {
            worker_table_see(&ledger->workers, number, stream_clock_ms());
            error = release_some(stream, number, (size_t)(all - released), &some);
        }
        pthread_mutex_unlock(&stream->streams->mutex);
        released += (int64_t)some;
        if (some == 0)
            break;
    }
    if (!error)
        *ret_released = released;
    return error;
}

size_t stream_leased_by(struct stream *stream, const char *worker)
{
    const struct ledger *ledger = &stream->ledger;
    pthread_mutex_lock(&stream->streams->mutex);
    uint32_t number = ledger_worker(ledger, worker);
    int64_t leased = number == WORKER_NONE ? 0 : worker_table_get(&ledger->workers, number)->leased;
    pthread_mutex_unlock(&stream->streams->mutex);
    return (size_t)leased;
}
