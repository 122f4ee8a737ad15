/* SPDX-License-Identifier: MIT */
#include "loader/feed/puller.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/thread.h"
#include "loader/feed/pull_answer.h"
#include "loader/feed/pull_bucket.h"
#include "loader/feed/pull_plan.h"
#include "loader/feed/pull_push.h"
#include "loader/feed/puller_private.h"
#include "loader/feed/stream_check.h"

/* Approximate units per request of FEED_INDEX. */
#define ROWS_AHEAD 4096
#define GRACE_MS 100 /* a closing feed waits this long for responses, to release their leases */

/* ---- stream and store --------------------------------------------------- */

/* A bad row that some batch must contain is an error now rather than after hours of training. Rows
 * are counted unless the caller names the stream (`expected`), which means that it has done so. */
static enum error check_stream(const struct puller *puller, const struct sampler_stream *stream)
{
    const struct puller_options *options = &puller->options;
    const struct store_info *store = options->store;
    enum error error = OK;
    if (!options->expected)
        error = stream_check_rows(stream, options->url, store, options->fails_on_bad_rows);
    if (!error && options->fails_on_bad_rows && store->first_bad_row &&
        stream->units == store->rows)
        error = error_set(ERROR_INPUT, "%s" BAD_ROWS_ADVICE, store->first_bad_row);
    return error;
}

/* If the token may not read the stream, pulls without the check. */
static enum error check_before_draws(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    enum error error = sampler_client_describe(connection->client, &puller->stream);
    if (error == ERROR_USAGE || error == ERROR_NOT_FOUND) {
        log_debug("rows are not compared with the stream: %s", error_message());
        return OK;
    }
    if (error)
        return error;
    puller->compares = true;
    pthread_mutex_lock(&puller->lock);
    lease_share_begin(&puller->share, &puller->stream);
    pthread_mutex_unlock(&puller->lock);
    return check_stream(puller, &puller->stream);
}

/* One connection fetches what is compared with the store, the others wait for its result. */
static enum error prepare(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    enum error error = OK;
    pthread_mutex_lock(&puller->check_lock);
    if (puller->checked) {
        error = puller->check_report.code ? error_restore(&puller->check_report) : OK;
    } else {
        if (puller_draws(puller))
            error = check_before_draws(connection);
        if (!error && puller->options.labels)
            error = label_check_fetch(puller->options.labels, connection->client);
        puller->checked = true;
        error_report_take(error, &puller->check_report);
    }
    pthread_mutex_unlock(&puller->check_lock);
    return error;
}

/* ---- FEED_INDEX --------------------------------------------------------- */

/* Pulls the batches of one grant. */
static enum error pull_grant(struct pull_connection *connection, struct pull_plan *plan,
                             const struct grant *grant, struct pull_answer *answer)
{
    struct puller *puller = connection->puller;
    const struct sampler_stream *stream = &puller->stream;
    int64_t left = grant->count;
    enum error error = OK;
    puller->next_index = grant->first;
    while (!error && left != 0) {
        const struct pull_request *request = &answer->request;
        int64_t pushed = 0;
        error = pull_answer_get(answer, connection, plan);
        if (!error)
            error = pull_push(puller, &answer->batch, request->skip_rows, left,
                              request->first >= 0 ? stream->epoch_draws : 0, &pushed);
        if (left > 0)
            left -= pushed;
    }
    return error;
}

/* The same, in buckets. */
static enum error push_buckets(struct pull_connection *connection, struct pull_plan *plan,
                               const struct grant *grant, struct pull_bucket *bucket,
                               struct pull_answer *answer)
{
    enum error error = OK;
    for (int64_t i = 0; i != grant->count && !error; i++)
        error = pull_bucket_push(bucket, connection, plan, answer, grant->first + i);
    return error;
}

static enum error describe(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    struct sampler_stream *stream = &puller->stream;
    enum error error = sampler_client_describe(connection->client, stream);
    if (!error && puller->options.expected) {
        error = sampler_stream_compare(puller->options.expected, stream);
        if (error)
            error = error_prefix(error, "%s: ", puller->options.url);
    }
    if (!error)
        atomic_store(&puller->described, true);
    return error ? error : check_stream(puller, stream);
}

/* Several ranks, or buckets, would ask the sampler for nothing, and never hear its refusal. */
static enum error check_size(const struct puller *puller, const struct pull_plan *plan)
{
    if (!plan->drop || plan->epoch_batches > 0)
        return OK;
    return error_set(ERROR_USAGE,
                     "%s, stream %s: batches of %" PRId64
                     " rows are larger than an epoch, which has "
                     "%" PRId64 ": with tail=drop no batch would ever be complete",
                     puller->options.url, puller->stream.name, plan->batch_rows, plan->epoch_draws);
}

/* With one rank, the stream ends where the sampler says so; with several, where their steps do. */
static enum error begin_walk(struct puller *puller, const struct pull_plan *plan)
{
    struct rank_walk *walk = &puller->options.walk;
    const struct sampler_stream *stream = &puller->stream;
    int64_t batches = walk->world > 1 ? pull_plan_batches(plan, stream->epochs) : INT64_MAX;
    enum error error = rank_walk_begin(walk, batches);
    if (error)
        return error_prefix(error, "%s, stream %s, design %s: ", puller->options.url, stream->name,
                            stream->design);
    int64_t left_out = rank_walk_left_out(walk);
    if (left_out > 0 && walk->rank == 0 && walk->part == 0)
        log_warning("stream %s: its last %" PRId64 " of %" PRId64
                    " batches are left out, since %" PRId64
                    " ranks take equally many steps (padding, or a stream without end, takes them)",
                    stream->name, left_out, batches, walk->world);
    return OK;
}

/* The next batches of FEED_INDEX. */
static enum error take_walk(struct puller *puller, int64_t *left, struct grant *ret_grant)
{
    if (!rank_walk_next(&puller->options.walk, *left, ret_grant)) {
        if (*left == 0)
            return error_set(ERROR_END, "all batches were pulled");
        return error_set(ERROR_END, "the stream %s has ended", puller->stream.name);
    }
    *left -= *left > 0 ? ret_grant->count : 0;
    return OK;
}

static enum error index_loop(struct pull_connection *connection)
{
    struct puller *puller = connection->puller;
    struct pull_plan plan;
    struct grant grant;
    struct pull_answer answer = {.there = false};
    struct pull_bucket bucket = {.reader = NULL};
    bool buckets = puller->options.bucket_window > 0;
    int64_t left = puller->options.batches;
    enum error error = describe(connection);
    if (error)
        return error;
    pull_plan_init(&plan, &puller->stream, puller->options.batch_rows, ROWS_AHEAD);
    error = check_size(puller, &plan);
    if (!error && puller->options.pull == FEED_INDEX)
        error = begin_walk(puller, &plan);
    if (!error && buckets) {
        stop_follow(&puller->cancelled);
        error = pull_bucket_init(&bucket, puller->options.lengths, puller, &plan);
    }
    while (!error) {
        error = puller->options.pull == FEED_INDEX ? take_walk(puller, &left, &grant)
                                                   : grant_queue_take(&puller->grants, &grant);
        if (!error)
            error = buckets ? push_buckets(connection, &plan, &grant, &bucket, &answer)
                            : pull_grant(connection, &plan, &grant, &answer);
    }
    pull_bucket_release(&bucket);
    return error;
}

/* ---- threads ------------------------------------------------------------ */

static void note_result(struct puller *puller, enum error error)
{
    puller->ended = true;
    if (error && (!puller->report.code || puller->report.code == ERROR_END))
        error_report_take(error, &puller->report);
    pthread_cond_broadcast(&puller->changed);
}

/* Under the lock; the last thread is leaving. */
static void tell_end(struct puller *puller)
{
    if (!puller->report.code) {
        error_set(ERROR_END, "all batches were pulled (%" PRId64 ")", puller->options.batches);
        error_report_take(ERROR_END, &puller->report);
    }
    ring_end(puller->ring, pull_queue_close(puller->queue), &puller->report);
}

static void *run(void *context)
{
    struct pull_connection *connection = context;
    struct puller *puller = connection->puller;
    enum error error = prepare(connection);
    if (!error)
        error = puller_draws(puller) ? puller_draw_loop(connection) : index_loop(connection);
    pthread_mutex_lock(&puller->lock);
    connection->state = CONNECTION_IDLE;
    note_result(puller, error);
    if (--puller->running == 0)
        tell_end(puller);
    pthread_mutex_unlock(&puller->lock);
    return NULL;
}

static enum error start_connection(struct puller *puller, struct pull_connection *connection)
{
    enum error error = thread_start("tombola-pull", run, connection, &connection->thread);
    connection->started = !error;
    puller->running += !error;
    return error;
}

static size_t rows_at_once(const struct puller_options *options)
{
    return options->batch_rows * (options->leases ? options->leases_at_once : 1);
}

static enum error start_all(struct puller *puller)
{
    enum error error = OK;
    for (size_t i = 0; !error && i < puller->options.connections; i++) {
        struct pull_connection *connection = &puller->connections[i];
        connection->puller = puller;
        error = sampler_client_open(puller->options.url, puller->options.credentials,
                                    puller->options.stream, puller->options.patience_ms,
                                    &connection->client);
        if (!error && puller->options.leases)
            sampler_client_set_grace(connection->client, GRACE_MS);
        if (!error)
            error = sampler_client_reserve(connection->client, rows_at_once(&puller->options));
    }
    pthread_mutex_lock(&puller->lock); /* no thread may leave before all are counted */
    for (size_t i = 0; !error && i < puller->options.connections; i++)
        error = start_connection(puller, &puller->connections[i]);
    pthread_mutex_unlock(&puller->lock);
    return error;
}

enum error puller_start(const struct puller_options *options, struct pull_queue *queue,
                        struct ring *ring, struct puller **ret_puller)
{
    struct puller *puller = array_new(1, sizeof(*puller), "a puller");
    if (!puller)
        return ERROR_MEMORY;
    puller->options = *options;
    puller->queue = queue;
    puller->ring = ring;
    atomic_init(&puller->wake_at, INT64_MAX);
    if (!puller_draws(puller))
        puller->options.connections = 1;
    grant_queue_init(&puller->grants);
    pthread_mutex_init(&puller->lock, NULL);
    pthread_mutex_init(&puller->check_lock, NULL);
    pthread_cond_init(&puller->changed, NULL);
    puller->connections =
        array_new(puller->options.connections, sizeof(struct pull_connection), "connections");
    enum error error = puller->connections ? OK : ERROR_MEMORY;
    if (!error)
        error = start_all(puller);
    if (error) {
        pull_queue_stop(queue);
        puller_stop(puller);
        return error;
    }
    *ret_puller = puller;
    return OK;
}

/* Stores the count, then reads `wake_at`; await_share() does it the other way round, so one of them
 * sees the other. */
void puller_handed(struct puller *puller, int64_t count)
{
    atomic_store(&puller->handed, count);
    if (count < atomic_load(&puller->wake_at))
        return;
    pthread_mutex_lock(&puller->lock);
    atomic_store(&puller->wake_at, INT64_MAX);
    pthread_cond_broadcast(&puller->changed);
    pthread_mutex_unlock(&puller->lock);
}

void puller_cancel(struct puller *puller)
{
    if (!puller)
        return;
    atomic_store(&puller->cancelled, true);
    pthread_mutex_lock(&puller->lock);
    puller->stopped = true;
    pthread_cond_broadcast(&puller->changed);
    pthread_mutex_unlock(&puller->lock);
    grant_queue_stop(&puller->grants);
    for (size_t i = 0; puller->connections && i < puller->options.connections; i++) {
        if (puller->connections[i].client)
            sampler_client_cancel(puller->connections[i].client);
    }
}

void puller_stop(struct puller *puller)
{
    if (!puller)
        return;
    puller_cancel(puller);
    for (size_t i = 0; puller->connections && i < puller->options.connections; i++) {
        if (puller->connections[i].started)
            pthread_join(puller->connections[i].thread, NULL);
        sampler_client_close(puller->connections[i].client);
    }
    grant_queue_release(&puller->grants);
    pthread_cond_destroy(&puller->changed);
    pthread_mutex_destroy(&puller->lock);
    pthread_mutex_destroy(&puller->check_lock);
    free(puller->connections);
    free(puller);
}

enum error puller_grant(struct puller *puller, struct grant grant)
{
    return grant_queue_push(&puller->grants, grant);
}

const struct sampler_stream *puller_stream(const struct puller *puller)
{
    return atomic_load(&puller->described) ? &puller->stream : NULL;
}

int64_t puller_round_epoch(const struct puller *puller, int64_t index, int64_t epoch)
{
    const struct rank_walk *walk = &puller->options.walk;
    struct pull_plan plan;
    if (puller->options.pull != FEED_INDEX || walk->world <= 1)
        return epoch;
    pull_plan_init(&plan, &puller->stream, puller->options.batch_rows, ROWS_AHEAD);
    int64_t known = pull_plan_epoch(&plan, rank_walk_round(walk, index));
    return known < 0 ? epoch : known;
}

int64_t puller_next_index(const struct puller *puller)
{
    return puller->next_index;
}

int64_t puller_busy_ns(const struct puller *puller)
{
    return atomic_load_explicit(&puller->busy_ns, memory_order_relaxed);
}
