/* SPDX-License-Identifier: MIT */
/* Requests to the servers of an exchange, and their answers: gradients and values, through shared
 * memory or TCP, sent again to servers that were lost meanwhile. */
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "trainer/exchange/exchange_private.h"

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
    if (header->step < 0 || header->step == INT64_MAX) /* the next one is a number, too */
        return error_set(ERROR_INPUT, "%s answers with values of step %" PRId64, remote->name,
                         header->step);
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
    if (!error) /* else the gradient that is sent again is still of the values before */
        remote->step = header->step;
    return error;
}

/* *ret_stale: the server answers that the generation is over. */
static enum error take_answer(struct exchange *exchange, struct remote *remote, bool *ret_stale)
{
    struct wire_header header;
    enum error error = exchange_receive(exchange, remote, UINT64_MAX, &header);
    if (error)
        return error;
    exchange_was_answered(exchange, remote);
    *ret_stale = header.type == WIRE_STALE;
    bool is_stored = header.type == WIRE_STORED && exchange->options.aggregate > 0 &&
                     remote != exchange->remotes;
    if (header.type == WIRE_STALE || is_stored)
        return OK;
    bool again = header.type == WIRE_AGAIN && exchange->options.staleness >= 0;
    exchange->again |= again;
    if (header.type != WIRE_VALUES && !again)
        return error_set(ERROR_INPUT, "%s answers %s to a request", remote->name,
                         wire_type_name(header.type));
    return take_values(exchange, remote, &header);
}

/* A server without a shard has no room for a gradient, and would close the connection. */
static bool is_stale_at(const struct remote *remote, const struct wire_header *request)
{
    return remote->is_empty && request->type == WIRE_PUSH;
}

/* A round of exchange_ask(): sends to servers that have not answered. A link lost meanwhile is
 * closed, which take_answers() notices. */
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

enum error exchange_ask(struct exchange *exchange, const struct wire_header *request, size_t begin,
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
