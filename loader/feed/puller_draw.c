/* SPDX-License-Identifier: MIT */
/*
 * Draws on several connections, in the sampler's order. A clock counts sends and arrivals. The
 * sampler serves a request after it was sent and before its answer arrives; so a request sent after
 * an answer arrived can only bring later positions, and one that was on its way before may bring
 * earlier ones. The threads wait for those, then the smallest position goes first. Batches that
 * were lent before come from anywhere: one thread pushes at a time.
 */
#include "common/clock.h"
#include "common/stop.h"
#include "loader/feed/pull_push.h"
#include "loader/feed/puller_private.h"

#define TICK_MS 100
#define LENT_MS 500 /* between two questions whether there is more than what is lent */

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

/* false: there is nothing more to ask for. */
static bool begin_request(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    pthread_mutex_lock(&puller->lock);
    bool more = !puller->ended && !is_stopped(puller) &&
                (puller->options.batches < 0 || puller->requested < puller->options.batches);
    if (more) {
        puller->requested++;
        connection->sent = ++puller->clock;
        connection->state = CONNECTION_SENT;
    }
    pthread_mutex_unlock(&puller->lock);
    return more;
}

/* The answer is here; waits for its turn. */
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

static void end_request(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    pthread_mutex_lock(&puller->lock);
    connection->state = CONNECTION_IDLE;
    pthread_cond_broadcast(&puller->changed);
    pthread_mutex_unlock(&puller->lock);
}

/* What is lent to us comes to an end when its batches are given back; nobody waits for the turn of
 * a connection that waits for that. */
static enum error await_what_is_lent(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    end_request(connection);
    lease_keeper_await_acks(puller->options.leases, LENT_MS);
    pthread_mutex_lock(&puller->lock);
    enum error error =
        is_stopped(puller) ? error_set(ERROR_CANCELLED, "stopped while all is lent") : OK;
    connection->sent = ++puller->clock;
    connection->state = CONNECTION_SENT;
    pthread_mutex_unlock(&puller->lock);
    return error;
}

static enum error lease(struct pull_connection *connection, struct sampler_batch *ret_batch)
{
    const struct puller_options *options = &connection->puller->options;
    int64_t seq = lease_keeper_next_seq(options->leases);
    enum error error;
    while ((error = sampler_client_lease(connection->client, options->batch_rows,
                                         lease_keeper_worker(options->leases), seq, ret_batch)) ==
           ERROR_UNAVAILABLE) {
        error = await_what_is_lent(connection);
        if (error)
            return error;
    }
    if (error)
        return error;
    size_t pieces = (ret_batch->rows + options->batch_rows - 1) / options->batch_rows;
    return lease_keeper_add(options->leases, &ret_batch->lease, pieces);
}

static enum error draw(struct pull_connection *connection, struct sampler_batch *ret_batch)
{
    struct puller *puller = connection->puller;
    int64_t started_ns = clock_now_ns();
    enum error error =
        puller->options.leases
            ? lease(connection, ret_batch)
            : sampler_client_draw(connection->client, puller->options.batch_rows, ret_batch);
    atomic_fetch_add_explicit(&puller->busy_ns, clock_now_ns() - started_ns, memory_order_relaxed);
    return error;
}

enum error puller_draw_loop(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    enum error error = OK;
    while (!error && begin_request(connection)) {
        struct sampler_batch batch;
        int64_t pushed;
        error = draw(connection, &batch);
        if (!error)
            error = await_turn(connection, batch.first);
        if (!error)
            error = pull_push(puller, &batch, 0, -1, 0, &pushed);
        if (!error)
            end_request(connection);
    }
    return error;
}
