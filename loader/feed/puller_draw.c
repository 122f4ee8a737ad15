/* SPDX-License-Identifier: MIT */
/*
 * Draws on several connections, in the sampler's order. A logical clock counts sends and arrivals.
 * The sampler serves a request after it was sent and before its response arrives; so a request sent
 * after a response arrived can only bring later positions, while one in flight before may bring
 * earlier ones. The threads wait for those, then the smallest position goes first. Redelivered
 * batches may be anywhere. One thread pushes at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/feed/pull_push.h"
#include "loader/feed/puller_private.h"

#define TICK_MS 100
#define LENT_MS 500 /* between two requests while every remaining batch is leased */

static bool may_push(const struct puller *puller, const struct pull_connection *mine)
{
    for (size_t i = 0; i < puller->options.connections; i++) {
        const struct pull_connection *other = &puller->connections[i];
        if (other == mine)
            continue;
        if (other->state == CONNECTION_PUSHING ||
            (other->state == CONNECTION_SENT && other->sent < mine->received))
            return false;
        if (other->state == CONNECTION_HELD &&
            (other->first < mine->first || (other->first == mine->first && other < mine)))
            return false;
    }
    return true;
}

static bool is_stopped(const struct puller *puller)
{
    return puller->stopped || stop_requested();
}

static bool is_ended(const struct puller *puller)
{
    const struct puller_options *options = &puller->options;
    return puller->ended || is_stopped(puller) ||
           (options->batches >= 0 && puller->requested >= options->batches);
}

/* Batches that the caller has not taken yet. It may have taken pieces of a batch before all of them
 * are counted. */
static int64_t ahead(const struct puller *puller, int64_t handed)
{
    return puller->asked > handed ? puller->asked - handed : 0;
}

/* Waits until the caller has taken enough of what is leased. Returns how many batches a request may
 * then ask for; 0: the stream has ended. */
static size_t await_share(struct puller *puller)
{
    const struct puller_options *options = &puller->options;
    const struct lease_share *share = &puller->share;
    size_t rows = options->batch_rows, at_once = options->leases_at_once;
    int64_t handed;
    for (;;) {
        if (is_ended(puller))
            return 0;
        handed = atomic_load(&puller->handed);
        int64_t enough = lease_share_enough(share, rows, handed, at_once);
        if (ahead(puller, handed) <= enough)
            break;
        struct timespec until = clock_timespec(clock_deadline_ns(TICK_MS));
        atomic_store(&puller->wake_at, puller->asked - enough);
        if (atomic_load(&puller->handed) == handed)
            pthread_cond_clockwait(&puller->changed, &puller->lock, CLOCK_MONOTONIC, &until);
    }
    int64_t room = lease_share_most(share, rows, handed) - ahead(puller, handed);
    return room < (int64_t)at_once ? (size_t)room : at_once;
}

/* How many batches to request; 0: nothing is left to request. */
static size_t begin_request(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    const struct puller_options *options = &puller->options;
    pthread_mutex_lock(&puller->lock);
    size_t batches = options->leases ? await_share(puller) : !is_ended(puller);
    if (options->batches >= 0 && options->batches - puller->requested < (int64_t)batches)
        batches = (size_t)(options->batches - puller->requested);
    if (batches > 0) {
        puller->requested += (int64_t)batches;
        puller->asked += (int64_t)batches;
        connection->sent = ++puller->clock;
        connection->state = CONNECTION_SENT;
        connection->furthest = puller->furthest;
        connection->falls = puller->falls;
    }
    pthread_mutex_unlock(&puller->lock);
    return batches;
}

/* A response has arrived; waits for its turn. */
static enum error await_turn(struct pull_connection *connection, int64_t first)
{
    struct puller *puller = connection->puller;
    enum error error = OK;
    pthread_mutex_lock(&puller->lock);
    connection->received = ++puller->clock;
    connection->first = first;
    connection->state = CONNECTION_HELD;
    pthread_cond_broadcast(&puller->changed);
    while (!is_stopped(puller) && !may_push(puller, connection)) {
        struct timespec until = clock_timespec(clock_deadline_ns(TICK_MS));
        pthread_cond_clockwait(&puller->changed, &puller->lock, CLOCK_MONOTONIC, &until);
    }
    if (is_stopped(puller))
        error = error_set(ERROR_CANCELLED, "stopped before a batch had its turn");
    else
        connection->state = CONNECTION_PUSHING;
    pthread_mutex_unlock(&puller->lock);
    return error;
}

/* `missing`: requested batches that did not come; the connection requests them again. `cut`: how
 * many more batches were made of those received. */
static void end_request(struct pull_connection *connection, size_t missing, int64_t cut)
{
    struct puller *puller = connection->puller;
    pthread_mutex_lock(&puller->lock);
    puller->requested -= (int64_t)missing;
    puller->asked += cut - (int64_t)missing;
    connection->state = CONNECTION_IDLE;
    pthread_cond_broadcast(&puller->changed);
    pthread_mutex_unlock(&puller->lock);
}

/* Whom the caller then waits for: perhaps another feed of its thread, or what it left itself. */
static void say_what_is_lent(const struct puller *puller)
{
    char reason[512];
    bool dropped = lease_keeper_has_dropped(puller->options.leases);
    snprintf(reason, sizeof(reason), "%s; this is worker %s%s", error_message(),
             lease_keeper_worker(puller->options.leases),
             dropped ? ", which put back a batch that was not trained (an exception ended its "
                       "loop): it comes again when its lease has expired"
                     : "");
    ring_say(puller->ring, reason);
}

/* Our own leases end when their batches are put back; nobody waits for the turn of a connection
 * that waits for that. */
static enum error await_what_is_lent(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    say_what_is_lent(puller);
    end_request(connection, 0, 0);
    lease_keeper_await_acks(puller->options.leases, LENT_MS);
    pthread_mutex_lock(&puller->lock);
    enum error error =
        is_stopped(puller)
            ? error_set(ERROR_CANCELLED, "stopped while every remaining batch is leased")
            : OK;
    connection->sent = ++puller->clock;
    connection->state = CONNECTION_SENT;
    pthread_mutex_unlock(&puller->lock);
    return error ? error : lease_keeper_check_acks(puller->options.leases);
}

/* Registers leases with the keeper before anything else is done with them. */
static enum error keep(struct puller *puller, const struct sampler_batch batches[], size_t count,
                       int64_t asked_ns)
{
    struct lease_keeper *leases = puller->options.leases;
    size_t batch_rows = puller->options.batch_rows;
    enum error error = OK;
    pthread_mutex_lock(&puller->lock);
    for (size_t i = 0; i < count; i++)
        lease_share_drawn(&puller->share, &batches[i]);
    pthread_mutex_unlock(&puller->lock);
    for (size_t i = 0; i < count && !error; i++)
        error = lease_keeper_add(leases, &batches[i].lease,
                                 (batches[i].rows + batch_rows - 1) / batch_rows, asked_ns);
    return error;
}

/* Up to `most` seqs from connection->seq on. Those without a batch are requested next: the sampler
 * would have to remember the holes between acked ones. */
static size_t reserve_seqs(struct pull_connection *connection, size_t most)
{
    if (connection->seq == connection->seqs_end) {
        connection->seq = lease_keeper_next_seqs(connection->puller->options.leases, (int64_t)most);
        connection->seqs_end = connection->seq + (int64_t)most;
    }
    int64_t left = connection->seqs_end - connection->seq;
    return (int64_t)most < left ? most : (size_t)left;
}

/* What stood in the way of a lease is past; else the error. */
static enum error after_refusal(struct pull_connection *connection, enum error error)
{
    if (error == ERROR_UNAVAILABLE)
        return await_what_is_lent(connection);
    if (error != ERROR_CONFLICT || !error_kind() || strcmp(error_kind(), SAMPLER_PAIR_LOST) != 0)
        return error;
    log_info("%s; the next batch is asked for", error_message());
    connection->seq++;
    return OK;
}

static enum error lease(struct pull_connection *connection, size_t most,
                        struct sampler_batch ret_batches[], size_t *ret_count)
{
    struct puller *puller = connection->puller;
    struct lease_keeper *leases = puller->options.leases;
    enum error error = lease_keeper_check_acks(leases);
    while (!error) {
        size_t some = reserve_seqs(connection, most);
        int64_t asked_ns = clock_boot_ns();
        error = sampler_client_lease(connection->client, puller->options.batch_rows, some,
                                     lease_keeper_worker(leases), connection->seq, ret_batches,
                                     ret_count);
        if (!error) {
            ring_say(puller->ring, NULL);
            connection->seq += (int64_t)*ret_count;
            return keep(puller, ret_batches, *ret_count, asked_ns);
        }
        error = after_refusal(connection, error);
    }
    return error;
}

/* A sampler that was restarted must continue the same order; its epochs and tail may differ. The
 * keeper has what it leased, and releases it. `at_end`: the response was 204, which ends the stream
 * only if its description agrees (*ret_early false): a gateway may answer 204, too. A token that
 * may no longer read the stream does not end a feed that may draw, as at the start. */
static enum error check_order(struct pull_connection *connection, bool at_end, bool *ret_early)
{
    struct puller *puller = connection->puller;
    struct sampler_stream now;
    if (!puller->compares || (!at_end && !sampler_client_disturbed(connection->client) &&
                              !sampler_client_check_order(connection->client, &puller->stream)))
        return OK;
    enum error error = sampler_client_describe(connection->client, &now);
    bool refused = error == ERROR_USAGE;
    if (!error)
        error = sampler_stream_compare_orders(&puller->stream, &now);
    if (!error || refused)
        error = sampler_client_check_order(connection->client, &puller->stream);
    *ret_early = !error && !refused && at_end && now.goes_on;
    return error ? error_prefix(error, "%s: ", puller->options.url) : OK;
}

/* Did the stream go back, so that what was received up to `furthest` comes again? A batch behind
 * that is no proof: some were not acked, or a draw was undone. The stream's position is one, unless
 * it is before the `end` of this batch: then a cache has described the stream. */
static bool has_fallen(struct pull_connection *connection, int64_t first, int64_t end,
                       int64_t furthest)
{
    struct sampler_stream now;
    return connection->puller->compares && first < furthest &&
           !sampler_client_describe(connection->client, &now) && now.position >= end &&
           now.position < furthest;
}

/* Was a batch that begins there drawn lately? Under the lock. */
static bool was_drawn(const struct puller *puller, int64_t first)
{
    bool found = false;
    if (first < puller->furthest)
        for (size_t i = 0; i < DRAWS_KNOWN && i < puller->draws; i++)
            found |= puller->drawn[i] == first;
    return found;
}

static void note_drawn(struct puller *puller, int64_t first, int64_t end)
{
    puller->drawn[puller->draws++ % DRAWS_KNOWN] = first;
    if (end > puller->furthest)
        puller->furthest = end;
}

/* The positions of the batches that were not redelivered; *ret_end is 0 if there are none. */
static void find_span(const struct sampler_batch batches[], size_t count, int64_t *ret_first,
                      int64_t *ret_end)
{
    *ret_first = INT64_MAX;
    *ret_end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sampler_batch *batch = &batches[i];
        int64_t end = batch->first + (int64_t)batch->rows;
        if (batch->lease.attempt > 1)
            continue;
        if (batch->first < *ret_first)
            *ret_first = batch->first;
        if (end > *ret_end)
            *ret_end = end;
    }
}

/* Warns once each time the stream goes back. Responses to requests sent before that do not count:
 * they may be from either side of it. ERROR_NETWORK: a batch of an epoch that does not go with its
 * position, or a plain draw answered with a batch that was drawn before, though the stream did not
 * go back. */
static enum error check_position(struct pull_connection *connection,
                                 const struct sampler_batch batches[], size_t count)
{
    struct puller *puller = connection->puller;
    int64_t first, end;
    for (size_t i = 0; i < count && puller->compares; i++) {
        enum error error =
            sampler_stream_check_epoch(&puller->stream, batches[i].first, batches[i].epoch);
        if (error)
            return error_prefix(error, "%s: ", puller->options.url);
    }
    find_span(batches, count, &first, &end);
    if (end == 0)
        return OK;
    pthread_mutex_lock(&puller->lock);
    bool again = puller->compares && puller->options.pull == FEED_DRAW && was_drawn(puller, first);
    int64_t before = again ? puller->furthest : connection->furthest;
    pthread_mutex_unlock(&puller->lock);
    bool fell = has_fallen(connection, first, end, before);
    pthread_mutex_lock(&puller->lock);
    bool counts = connection->falls == puller->falls;
    fell &= counts;
    if (fell) {
        connection->falls = ++puller->falls;
        puller->furthest = 0;
        puller->draws = 0;
    }
    if (counts)
        note_drawn(puller, first, end);
    pthread_mutex_unlock(&puller->lock);
    if (fell)
        log_warning("stream %s of the sampler at %s went back: it draws from position %" PRId64
                    ", after batches up to position %" PRId64
                    " were received, so that rows come again (a sampler without --state begins "
                    "anew when it is restarted; a seek or a restore does the same)",
                    puller->stream.name, puller->options.url, first, before);
    else if (again && counts)
        return error_set(ERROR_NETWORK,
                         "the sampler at %s answered a draw with the batch at position %" PRId64
                         ", which was drawn before: the stream %s did not go back, so something "
                         "between answered from a cache",
                         puller->options.url, first, puller->stream.name);
    return OK;
}

static enum error ask(struct pull_connection *connection, size_t most,
                      struct sampler_batch ret_batches[], size_t *ret_count)
{
    const struct puller_options *options = &connection->puller->options;
    *ret_count = 1;
    if (options->leases)
        return lease(connection, most, ret_batches, ret_count);
    return sampler_client_draw(connection->client, options->batch_rows, ret_batches);
}

/* An early end is asked for again: the stream may have been set back since. */
static enum error draw(struct pull_connection *connection, size_t most,
                       struct sampler_batch ret_batches[], size_t *ret_count)
{
    struct puller *puller = connection->puller;
    int64_t started_ns = clock_now_ns();
    enum error error = OK, other = OK;
    bool early = true;
    for (int tries = 0; early && tries < 2; tries++) {
        early = false;
        error = ask(connection, most, ret_batches, ret_count);
        other =
            !error || error == ERROR_END ? check_order(connection, error == ERROR_END, &early) : OK;
    }
    if (early)
        other = error_set(ERROR_NETWORK,
                          "the sampler at %s answered 204 to a draw: the stream %s has not ended, "
                          "so something between answered for it",
                          puller->options.url, puller->stream.name);
    if (!error && !other)
        other = check_position(connection, ret_batches, *ret_count);
    atomic_fetch_add_explicit(&puller->busy_ns, clock_now_ns() - started_ns, memory_order_relaxed);
    return other ? other : error;
}

enum error puller_draw_loop(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    struct sampler_batch batches[SAMPLER_LEASES_AT_ONCE];
    size_t asked;
    enum error error = OK;
    while (!error && (asked = begin_request(connection)) > 0) {
        size_t count;
        int64_t pushed, pieces = 0;
        error = draw(connection, asked, batches, &count);
        if (!error)
            error = await_turn(connection, batches[0].first);
        for (size_t i = 0; i < count && !error; i++) {
            error = pull_push(puller, &batches[i], 0, -1, 0, &pushed);
            pieces += error ? 0 : pushed;
        }
        if (!error)
            end_request(connection, asked - count, pieces - (int64_t)count);
    }
    return error;
}
