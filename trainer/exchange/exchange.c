/* SPDX-License-Identifier: MIT */
#include "trainer/exchange/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/exchange/exchange_private.h"

#define ELSEWHERE_MS 50 /* for the other servers to begin a generation that server 0 has begun */
#define AHEAD 3         /* synchronous: steps whose batches are fetched speculatively */

/* ---- shared memory ------------------------------------------------------ */

/* Offers shared memory to a server that has its shard, before the first gradient. Without it
 * everything is sent by TCP. */
static enum error offer_memory(struct exchange *exchange, struct remote *remote)
{
    struct shared_memory_offer offer;
    struct iovec part = {.iov_base = &offer, .iov_len = sizeof(offer)};
    struct wire_header header = {.type = WIRE_OFFER};
    remote->offered = true;
    if (exchange->options.tcp_only || remote->shard.parameters == 0 ||
        !link_is_local(&remote->link) ||
        shared_memory_make(&remote->shared, remote->shard.parameters, &offer))
        return OK;
    enum error error =
        link_send(&remote->link, &header, &part, 1, clock_deadline_ns(EXCHANGE_SEND_MS));
    if (!error)
        error = exchange_receive(exchange, remote, sizeof(header), &header);
    if (!error && header.type != WIRE_TAKEN)
        error = error_set(ERROR_INPUT, "%s answers %s to OFFER", remote->name,
                          wire_type_name(header.type));
    shared_memory_was_taken(&remote->shared);
    if (error || !header.shared)
        shared_memory_release(&remote->shared);
    else
        exchange_use_memory(exchange, remote);
    remote->offered = error || header.generation != 0;
    log_debug("%s: %s", remote->name, remote->shared.values ? "shared memory" : "TCP alone");
    return error;
}

/* ---- requests ----------------------------------------------------------- */

/* Packs this server's part of the gradient: into shared memory, or as parts of the frame. Returns
 * how many parts there are; the list of runs, if any, is the first. */
static size_t pack_gradient(struct exchange *exchange, struct remote *remote,
                            struct wire_header *header, struct iovec parts[])
{
    const float *all = exchange->gradient;
    struct runs *runs = &remote->runs;
    size_t count = 0;
    runs_find(&remote->shard, model_get_layout(exchange->model), all, runs);
    header->detail = (uint16_t)runs->count;
    header->shared = remote->shared.gradient != NULL;
    float *copy = remote->shared.gradient; /* NULL: nothing is copied */
    if (copy == all)                       /* the model computes in that memory */
        copy = NULL;
    if (runs->count > 0)
        parts[count++] = (struct iovec){runs->list, runs->count * sizeof(*runs->list)};
    for (size_t i = 0; i < runs->count; i++) {
        size_t bytes = runs->list[i].count * sizeof(float);
        if (copy)
            memcpy(copy + runs->list[i].first, all + runs->offsets[i], bytes);
        else if (!header->shared)
            parts[count++] = (struct iovec){(void *)(all + runs->offsets[i]), bytes};
    }
    if (runs->count == 0 && copy)
        shard_pack(&remote->shard, all, copy);
    for (size_t i = 0; runs->count == 0 && !header->shared && i < remote->shard.piece_count; i++) {
        const struct shard_piece *piece = &remote->shard.pieces[i];
        parts[count++] =
            (struct iovec){(void *)(all + piece->offset), piece->count * sizeof(float)};
    }
    return count;
}

static enum error send_request(struct exchange *exchange, struct remote *remote,
                               const struct wire_header *request)
{
    _Static_assert(SHARD_PIECES_LIMIT <= WIRE_PARTS_LIMIT && RUNS_LIMIT + 1 <= WIRE_PARTS_LIMIT,
                   "a gradient is one frame");
    struct iovec parts[WIRE_PARTS_LIMIT];
    struct wire_header header = *request;
    enum error error = OK;
    size_t count = 0;
    if (header.type == WIRE_PUSH && !remote->offered)
        error = offer_memory(exchange, remote);
    if (error)
        return error;
    if (remote != exchange->remotes)
        header.done = WIRE_NONE;
    if (header.type == WIRE_PUSH && exchange->options.aggregate == 0)
        header.step = remote->step;
    if (header.type == WIRE_PUSH)
        count = pack_gradient(exchange, remote, &header, parts);
    return link_send(&remote->link, &header, parts, count, clock_deadline_ns(EXCHANGE_SEND_MS));
}

static enum error take_grant(struct exchange *exchange, struct remote *remote)
{
    struct index_range range;
    enum error error =
        link_read(&remote->link, &range, sizeof(range), clock_deadline_ns(EXCHANGE_SEND_MS));
    if (!error)
        error = wire_ranges_read(&range, 1, &exchange->held);
    return error ? error : index_set_add(&exchange->granted, range);
}

static enum error take_values(struct exchange *exchange, struct remote *remote,
                              const struct wire_header *header)
{
    enum error error = OK;
    bool grants = remote == exchange->remotes; /* no other server does */
    size_t floats = header->shared ? 0 : remote->shard.parameters * sizeof(float);
    if (header->shared && !remote->shared.values)
        return error_set(ERROR_INPUT, "%s answers through memory that is not shared", remote->name);
    if (header->bytes != floats + header->stock * sizeof(struct index_range) ||
        header->stock > grants)
        return error_set(ERROR_INPUT, "%s answers with %" PRIu64 " bytes of values, not %zu",
                         remote->name, header->bytes, floats);
    remote->step = header->step;
    remote->is_empty = false;
    if (grants) {
        if (header->generation != exchange->generation) /* its earlier grants are void */
            exchange_lose_grants(exchange);
        if (header->stock > 0)
            error = take_grant(exchange, remote);
        exchange->step = header->step;
        exchange->generation = header->generation;
        exchange->over = header->over != 0;
        exchange->was_saved |= (header->detail & WIRE_IS_SAVED) != 0;
    }
    if (header->shared && remote->shared.values != exchange->values)
        shard_unpack(&remote->shard, remote->shared.values, exchange->values);
    for (size_t i = 0; !header->shared && i < remote->shard.piece_count && !error; i++) {
        const struct shard_piece *piece = &remote->shard.pieces[i];
        error = link_read(&remote->link, exchange->values + piece->offset,
                          piece->count * sizeof(float), clock_deadline_ns(EXCHANGE_SEND_MS));
    }
    return error;
}

/* *ret_stale: the server answers that the generation is over. */
static enum error take_answer(struct exchange *exchange, struct remote *remote, bool *ret_stale)
{
    struct wire_header header;
    enum error error = exchange_receive(exchange, remote, UINT64_MAX, &header);
    if (error)
        return error;
    *ret_stale = header.type == WIRE_STALE;
    if (header.type == WIRE_STALE || header.type == WIRE_STORED)
        return OK;
    exchange->again |= header.type == WIRE_AGAIN;
    if (header.type != WIRE_VALUES && header.type != WIRE_AGAIN)
        return error_set(ERROR_INPUT, "%s answers %s to a request", remote->name,
                         wire_type_name(header.type));
    return take_values(exchange, remote, &header);
}

/* A server without a shard has no room for a gradient, and would close the connection. */
static bool is_stale_at(const struct remote *remote, const struct wire_header *request)
{
    return remote->is_empty && request->type == WIRE_PUSH;
}

/* A round of ask(): sends to servers that have not answered. A link lost meanwhile is closed, which
 * take_answers() notices. */
static enum error send_requests(struct exchange *exchange, const struct wire_header *request,
                                size_t begin, size_t end, bool *stale)
{
    enum error error = OK;
    for (size_t i = begin; i < end; i++) {
        struct remote *remote = &exchange->remotes[i];
        if (remote->answered)
            continue;
        if (remote->link.descriptor < 0)
            error = exchange_connect(exchange, remote);
        if (error)
            return error;
        if (is_stale_at(remote, request)) {
            remote->answered = *stale = true;
            continue;
        }
        error = send_request(exchange, remote, request);
        if (error && !exchange_may_come_back(error))
            return error;
        error = OK;
    }
    return OK;
}

/* *ret_open: servers that have not answered yet. */
static enum error take_answers(struct exchange *exchange, size_t begin, size_t end, bool *stale,
                               size_t *ret_open)
{
    *ret_open = 0;
    for (size_t i = begin; i < end; i++) {
        struct remote *remote = &exchange->remotes[i];
        bool is_stale = false;
        enum error error = OK;
        if (!remote->answered && remote->link.descriptor >= 0) {
            error = take_answer(exchange, remote, &is_stale);
            remote->answered = !error;
        }
        if (error && !exchange_may_come_back(error))
            return error;
        if (error)
            exchange_say_waiting(exchange, remote, link_reason(&remote->link));
        if (is_stale)
            exchange->behind = remote;
        *stale |= is_stale;
        *ret_open += !remote->answered;
    }
    return OK;
}

/* Sends `request` to servers [begin, end) and takes their answers; a server lost meanwhile is asked
 * again. *ret_stale: all have answered, and one of them has another generation. */
static enum error ask(struct exchange *exchange, const struct wire_header *request, size_t begin,
                      size_t end, bool *ret_stale)
{
    enum error error = OK;
    size_t open = end - begin;
    *ret_stale = false;
    for (size_t i = begin; i < end; i++)
        exchange->remotes[i].answered = false;
    while (open > 0 && !error) {
        error = send_requests(exchange, request, begin, end, ret_stale);
        if (!error)
            error = take_answers(exchange, begin, end, ret_stale, &open);
    }
    return error;
}

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
        error = ask(exchange, &request, 0, 1, &stale);
        exchange->done = WIRE_NONE;
        request = request_of(exchange, WIRE_PULL, batch);
        if (!error && !stale && exchange->servers > 1)
            error = ask(exchange, &request, 1, exchange->servers, &stale);
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

/* Server 0 receives a gradient after all others, and makes the step with the last one. If its
 * answer shows that it did, the others' values are fetched. */
static enum error push_in_step(struct exchange *exchange, struct wire_header *request,
                               bool *ret_stale)
{
    enum error error = OK;
    *ret_stale = false;
    if (exchange->servers > 1)
        error = ask(exchange, request, 1, exchange->servers, ret_stale);
    if (!error && !*ret_stale)
        error = ask(exchange, request, 0, 1, ret_stale);
    if (error || *ret_stale || exchange->servers == 1)
        return error;
    struct wire_header wanted = request_of(exchange, WIRE_PULL, WIRE_NONE);
    return exchange->remotes[1].step == exchange->step
               ? OK
               : ask(exchange, &wanted, 1, exchange->servers, ret_stale);
}

/* A gradient that only some servers have makes cuts impossible: after a signal, waits continue for
 * three seconds to finish the push. */
static enum error push_to_all(struct exchange *exchange, const struct wire_header *request,
                              bool *ret_stale)
{
    for (size_t i = 0; i < exchange->servers; i++)
        exchange->remotes[i].link.finishes = true;
    enum error error = ask(exchange, request, 0, exchange->servers, ret_stale);
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

/* Synchronous: server 0 learns of the end last, as of gradients. It may answer only once there are
 * batches again, and makes a last step of fewer batches, which the others could not follow. */
enum error exchange_end_stream(struct exchange *exchange, int64_t epochs, int64_t end)
{
    if (exchange->rank)
        return rank_end_stream(exchange->rank, end);
    enum error error = tell_epochs(exchange, epochs);
    if (error)
        return error;
    exchange_lose_grants(exchange);
    index_set_clear(&exchange->asked);
    struct wire_header request = request_of(exchange, WIRE_PULL, end);
    bool stale;
    if (exchange->options.aggregate > 0 && exchange->servers > 1)
        error = ask(exchange, &request, 1, exchange->servers, &stale);
    return error ? error : pull(exchange, end);
}
