/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/exchange/exchange_private.h"

#define ELSEWHERE_MS 50 /* for the other servers to begin a generation that server 0 has begun */
#define AHEAD 3         /* synchronous: steps whose batches are fetched speculatively */

static struct wire_header request_of(const struct exchange *exchange, enum wire_type type,
                                     int64_t batch)
{
    return (struct wire_header){.type = (uint16_t)type,
                                .generation = exchange->generation,
                                .batch = batch,
                                .done = exchange->done,
                                .step = exchange->step,
                                .stock = (uint32_t)index_set_size(&exchange->held)};
}

/* ---- values ------------------------------------------------------------- */

/* Passes the received values to the model; on a GPU they are copied there. */
static enum error give_model(struct exchange *exchange)
{
    model_set_step(exchange->model, exchange->step);
    if (!exchange->own_memory)
        return OK;
    return kernel_write(exchange->engine->kernel, exchange->values,
                        model_parameters(exchange->model), model_values(exchange->model));
}

static enum error take_gradient(struct exchange *exchange)
{
    if (!exchange->own_memory)
        return OK;
    return kernel_read(exchange->engine->kernel, model_gradient_values(exchange->model),
                       model_parameters(exchange->model), exchange->gradient);
}

/* Asks server 0 for the generation, its values and new batches, then the others for their values;
 * they may begin that generation a moment later. */
static enum error pull(struct exchange *exchange, int64_t batch)
{
    bool stale = true;
    enum error error = OK;
    int64_t say_ns = clock_deadline_ns(EXCHANGE_SAY_MS);
    struct wire_header request = request_of(exchange, WIRE_PULL, batch);
    while (stale && !error) {
        error = exchange_ask(exchange, &request, 0, 1, &stale);
        exchange->done = WIRE_NONE;
        request = request_of(exchange, WIRE_PULL, batch);
        if (!error && !stale && exchange->servers > 1)
            error = exchange_ask(exchange, &request, 1, exchange->servers, &stale);
        if (stale && !error && clock_now_ns() > say_ns) {
            log_warning("waiting for %s: it has no parameters of this training yet",
                        exchange->behind->name);
            say_ns = INT64_MAX;
        }
        if (stale && !error && stop_wait(clock_deadline_ns(ELSEWHERE_MS)))
            error = error_set(ERROR_CANCELLED, "stopped while parameter servers begin again");
    }
    return error ? error : give_model(exchange);
}

/* ---- life cycle --------------------------------------------------------- */

static void init_remote(struct exchange *exchange, size_t number)
{
    struct remote *remote = &exchange->remotes[number];
    const struct cluster_task *task = cluster_server(exchange->options.cluster, number);
    char address[CLUSTER_ADDRESS_BYTES];
    snprintf(remote->name, sizeof(remote->name), "parameter server %zu (%s)", number,
             cluster_task_address(task, address));
    link_init(&remote->link, remote->name, task->host, task->port);
}

static enum error open_facts(const struct exchange *exchange, struct checkpoint **ret_checkpoint)
{
    return checkpoint_open_facts(exchange->remotes[0].name, exchange->facts.data,
                                 exchange->facts.length, ret_checkpoint);
}

enum error exchange_open(const struct exchange_options *options, struct exchange **ret_exchange,
                         struct checkpoint **ret_checkpoint)
{
    struct exchange *exchange = array_new(1, sizeof(*exchange), "an exchange");
    if (!exchange)
        return ERROR_MEMORY;
    exchange->options = *options;
    exchange->servers = cluster_server_count(options->cluster);
    exchange->facts = (struct buffer)BUFFER_INIT(WIRE_FACTS_LIMIT + 1);
    exchange->done = WIRE_NONE;
    exchange->remotes =
        array_new(exchange->servers, sizeof(*exchange->remotes), "parameter servers");
    for (size_t i = 0; exchange->remotes && i < exchange->servers; i++)
        init_remote(exchange, i);
    enum error error =
        exchange->remotes ? exchange_connect(exchange, &exchange->remotes[0]) : ERROR_MEMORY;
    *ret_checkpoint = NULL;
    if (!error && !exchange->proposes)
        error = open_facts(exchange, ret_checkpoint);
    if (error) {
        exchange_close(exchange);
        return error;
    }
    *ret_exchange = exchange;
    return OK;
}

void exchange_close(struct exchange *exchange)
{
    if (!exchange)
        return;
    rank_close(exchange->rank);
    for (size_t i = 0; exchange->remotes && i < exchange->servers; i++) {
        link_close(&exchange->remotes[i].link);
        exchange_release_memory(exchange, &exchange->remotes[i]);
    }
    buffer_release(&exchange->facts);
    index_set_release(&exchange->held);
    index_set_release(&exchange->granted);
    index_set_release(&exchange->asked);
    free(exchange->remotes);
    free(exchange->own_memory);
    free(exchange);
}

enum error exchange_propose(struct exchange *exchange, const struct checkpoint_facts *facts,
                            struct checkpoint **ret_checkpoint)
{
    struct remote *zero = &exchange->remotes[0];
    struct buffer bytes = BUFFER_INIT(WIRE_FACTS_LIMIT);
    *ret_checkpoint = NULL;
    if (!exchange->proposes)
        return OK;
    enum error error = checkpoint_print_facts(facts, 0, &bytes);
    while (!error && exchange->proposes) {
        error = exchange_send_proposal(exchange, &bytes);
        if (!error && exchange->proposes)
            error = error_set(ERROR_INPUT, "%s answers PROPOSE to PROPOSAL", zero->name);
        /* Once it is back it may have received facts, ours or another worker's. */
        if (exchange_may_come_back(error))
            error = exchange_connect(exchange, zero);
    }
    buffer_release(&bytes);
    return error ? error : open_facts(exchange, ret_checkpoint);
}

/* A connection that is lost meanwhile is opened again, which tells them too. */
static enum error tell_epochs(struct exchange *exchange, int64_t epochs)
{
    struct remote *zero = &exchange->remotes[0];
    exchange->epochs = epochs > 0 ? epochs : INT64_MAX;
    exchange->told = 0;
    enum error error = zero->link.descriptor < 0 ? exchange_connect(exchange, zero)
                                                 : exchange_send_stream(exchange);
    return exchange_may_come_back(error) ? exchange_connect(exchange, zero) : error;
}

enum error exchange_begin(struct exchange *exchange, const struct engine *engine,
                          struct model *model, int64_t epochs, int64_t batches)
{
    size_t parameters = model_parameters(model);
    exchange->engine = engine;
    exchange->model = model;
    enum error error = tell_epochs(exchange, epochs);
    if (error)
        return error;
    if (exchange->options.is_grouped)
        return rank_open(exchange, batches, &exchange->rank);
    if (engine->device->kind == DEVICE_CPU) {
        exchange->values = model_values(model);
        exchange->gradient = model_gradient_values(model);
    } else {
        exchange->own_memory = array_new(2 * parameters, sizeof(float), "values and gradient");
        if (!exchange->own_memory)
            return ERROR_MEMORY;
        exchange->values = exchange->own_memory;
        exchange->gradient = exchange->own_memory + parameters;
    }
    for (size_t i = 0; i < exchange->servers; i++)
        shard_init(&exchange->remotes[i].shard, model_get_layout(model), exchange->servers, i,
                   exchange->options.round_robin);
    return pull(exchange, WIRE_NONE);
}

/* ---- batches ------------------------------------------------------------ */

static enum error ask_feed(struct exchange *exchange, struct feed *feed, int64_t batch)
{
    if (index_set_has(&exchange->asked, batch))
        return OK;
    enum error error = index_set_add(&exchange->asked, (struct index_range){batch, batch + 1});
    return error ? error : feed_grant(feed, batch, 1);
}

/* Synchronous: each step grants one batch, most often that of the same rank. The batches of that
 * rank in the next steps are fetched speculatively. */
static enum error ask_ahead(struct exchange *exchange, struct feed *feed, int64_t batch)
{
    enum error error = OK;
    for (int64_t i = 0; i <= AHEAD && !error; i++)
        error = ask_feed(exchange, feed, batch + i * (int64_t)exchange->options.aggregate);
    return error;
}

static enum error pass_on(struct exchange *exchange, struct feed *feed)
{
    enum error error = OK;
    for (size_t i = 0; i < exchange->granted.count && !error; i++) {
        struct index_range range = exchange->granted.ranges[i];
        error = exchange->options.aggregate > 0
                    ? ask_ahead(exchange, feed, range.first)
                    : feed_grant(feed, range.first, range.end - range.first);
    }
    index_set_clear(&exchange->granted);
    return error;
}

enum error exchange_refill(struct exchange *exchange, struct feed *feed)
{
    if (exchange->rank)
        return rank_refill(exchange->rank, feed);
    enum error error = pass_on(exchange, feed);
    while (!error && !exchange->over && exchange->held.count == 0) {
        error = pull(exchange, WIRE_NONE);
        if (!error)
            error = pass_on(exchange, feed);
    }
    return error || !exchange->over ? error : error_set(ERROR_END, "the training is over");
}

enum error exchange_look(struct exchange *exchange)
{
    return exchange->rank ? OK : pull(exchange, WIRE_NONE);
}

bool exchange_take(struct exchange *exchange, int64_t batch)
{
    struct index_range one = {batch, batch + 1};
    if (exchange->rank)
        return rank_take(exchange->rank, batch);
    return !index_set_remove(&exchange->asked, one) && index_set_has(&exchange->held, batch);
}

/* Are all servers' values of the step that server 0 has reached? One that was asked after another
 * worker may have made a step that the others had not: of these the values are missing. */
static bool is_in_step(const struct exchange *exchange)
{
    for (size_t i = 1; i < exchange->servers; i++) {
        if (exchange->remotes[i].step != exchange->step)
            return false;
    }
    return true;
}

/* Server 0 receives a gradient after all others, and makes the step with the last one. If its
 * answer shows that it did, the others' values are fetched. */
static enum error push_in_step(struct exchange *exchange, struct wire_header *request,
                               bool *ret_stale)
{
    enum error error = OK;
    *ret_stale = false;
    if (exchange->servers > 1)
        error = exchange_ask(exchange, request, 1, exchange->servers, ret_stale);
    if (!error && !*ret_stale)
        error = exchange_ask(exchange, request, 0, 1, ret_stale);
    if (error || *ret_stale || is_in_step(exchange))
        return error;
    struct wire_header wanted = request_of(exchange, WIRE_PULL, WIRE_NONE);
    return exchange_ask(exchange, &wanted, 1, exchange->servers, ret_stale);
}

/* A gradient that only some servers have makes cuts impossible: after a signal, waits continue for
 * three seconds to finish the push. */
static enum error push_to_all(struct exchange *exchange, const struct wire_header *request,
                              bool *ret_stale)
{
    for (size_t i = 0; i < exchange->servers; i++)
        exchange->remotes[i].link.finishes = true;
    enum error error = exchange_ask(exchange, request, 0, exchange->servers, ret_stale);
    for (size_t i = 0; i < exchange->servers; i++)
        exchange->remotes[i].link.finishes = false;
    return error;
}

enum error exchange_push(struct exchange *exchange, int64_t batch, size_t rows, bool *ret_again)
{
    bool stale;
    struct index_range one = {batch, batch + 1};
    *ret_again = false;
    if (exchange->rank)
        return rank_push(exchange->rank, rows);
    enum error error = rows > 0 ? take_gradient(exchange) : OK;
    exchange->again = false;
    if (!error)
        error = index_set_remove(&exchange->held, one);
    if (error)
        return error;
    struct wire_header request = request_of(exchange, rows > 0 ? WIRE_PUSH : WIRE_SKIP, batch);
    if (exchange->options.aggregate > 0)
        error = push_in_step(exchange, &request, &stale);
    else
        error = push_to_all(exchange, &request, &stale);
    exchange->done = exchange->again ? WIRE_NONE : batch;
    if (!error && stale) {
        exchange_lose_grants(exchange);
        exchange->done = WIRE_NONE;
        return pull(exchange, WIRE_NONE);
    }
    if (!error && exchange->over) /* others made the last steps meanwhile */
        return pull(exchange, WIRE_NONE);
    if (!error && exchange->again) {
        *ret_again = true;
        error = index_set_add(&exchange->held, one);
    }
    return error ? error : give_model(exchange);
}

enum error exchange_end_stream(struct exchange *exchange, int64_t epochs, int64_t end)
{
    if (exchange->rank)
        return rank_end_stream(exchange->rank, end);
    enum error error = tell_epochs(exchange, epochs);
    if (error)
        return error;
    exchange_lose_grants(exchange);
    index_set_clear(&exchange->asked);
    return pull(exchange, end);
}
