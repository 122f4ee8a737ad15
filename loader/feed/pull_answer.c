/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_answer.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"

static enum error ask_for(struct pull_connection *connection, struct pull_plan *plan, int64_t index,
                          struct pull_request *ret_request, struct sampler_batch *ret_batch)
{
    int64_t started_ns = clock_now_ns();
    pull_plan_at(plan, index, ret_request);
    enum error error =
        sampler_client_index(connection->client, ret_request->size, ret_request->index, ret_batch);
    if (error == ERROR_USAGE && plan->block > 1) { /* for example, --max-size is smaller */
        log_debug("batches are requested one by one: %s", error_message());
        pull_plan_single(plan);
        pull_plan_at(plan, index, ret_request);
        error = sampler_client_index(connection->client, ret_request->size, ret_request->index,
                                     ret_batch);
    }
    atomic_fetch_add_explicit(&connection->puller->busy_ns, clock_now_ns() - started_ns,
                              memory_order_relaxed);
    return error;
}

static enum error check_position(const struct puller *puller, const struct pull_request *request,
                                 const struct sampler_batch *batch)
{
    if (request->first >= 0 && request->first != batch->first)
        return error_set(
            ERROR_CONFLICT,
            "the sampler at %s gives position %" PRId64 " for batch %" PRId64
            " of size %zu, which was at %" PRId64 ": the stream is another one than it was",
            puller->options.url, batch->first, request->index, request->size, request->first);
    if (request->rows > 0 && request->rows != batch->rows)
        return error_set(ERROR_CONFLICT,
                         "the sampler at %s gives %zu %s for batch %" PRId64
                         " of size %zu, which held %zu: the stream is another one than it was",
                         puller->options.url, batch->rows,
                         text_plural(batch->rows, "unit", "units"), request->index, request->size,
                         request->rows);
    if (batch->rows <= request->skip_rows)
        return error_set(ERROR_END, "the stream has ended");
    enum error error = sampler_stream_check_epoch(&puller->stream, batch->first, batch->epoch);
    return error ? error_prefix(error, "%s: ", puller->options.url) : OK;
}

/* An end before the last batch that the stream's description promises: some gateway's 204. */
static enum error refuse_end(const struct puller *puller)
{
    return error_set(ERROR_NETWORK,
                     "the sampler at %s answered 204 for batch %" PRId64
                     ": the stream %s has not ended there, so something between answered for it",
                     puller->options.url, puller->next_index, puller->stream.name);
}

/* A restarted sampler must have the same order, and not end before it; checked on the connection
 * that the batch came from, otherwise the batch is requested again: once, since a gateway may close
 * its connection after every response. */
static enum error ask_the_same(struct pull_connection *connection,
                               const struct sampler_stream *stream, struct pull_plan *plan,
                               struct pull_request *ret_request, struct sampler_batch *ret_batch)
{
    struct puller *puller = connection->puller;
    for (bool again = false;; again = true) {
        struct sampler_stream now;
        enum error asked = ask_for(connection, plan, puller->next_index, ret_request, ret_batch);
        bool early =
            asked == ERROR_END && puller->next_index < pull_plan_batches(plan, stream->epochs);
        if ((asked && asked != ERROR_END) ||
            (!early && !sampler_client_disturbed(connection->client) &&
             !sampler_client_check_order(connection->client, stream)))
            return asked;
        enum error error = sampler_client_describe(connection->client, &now);
        if (!error)
            error = sampler_stream_compare(stream, &now); /* reports how the orders differ */
        if (!error)
            error = sampler_client_check_order(connection->client, stream);
        if (error)
            return error_prefix(error, "%s: ", puller->options.url);
        if (early)
            return refuse_end(puller);
        if (asked || again || !sampler_client_reconnected(connection->client))
            return asked;
    }
}

/* Batches granted one at a time come from a response that holds many. */
enum error pull_answer_get(struct pull_answer *answer, struct pull_connection *connection,
                           struct pull_plan *plan)
{
    const struct sampler_stream *stream = &connection->puller->stream;
    struct pull_request wanted;
    pull_plan_at(plan, connection->puller->next_index, &wanted);
    enum error error = OK;
    if (answer->there && answer->request.size == wanted.size &&
        answer->request.index == wanted.index)
        answer->request = wanted;
    else
        error = ask_the_same(connection, stream, plan, &answer->request, &answer->batch);
    answer->there = !error;
    return error ? error : check_position(connection->puller, &answer->request, &answer->batch);
}
