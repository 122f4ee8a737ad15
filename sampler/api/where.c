/* SPDX-License-Identifier: MIT */
/*
 * GET /where: whether a unit is ahead, leased or done in one epoch of a stream. In closed form if a
 * unit comes at most once; else a separate thread pool searches for its positions.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/http/response.h"
#include "common/stop.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/batch/batch_request.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 30)

/* A longer search would keep the pool's threads from others. */
#define SEARCH_MS 30000

enum end { END_FOUND, END_SERVER, END_CLIENT, END_DEADLINE };

struct search {
    struct order_search order_search; /* first: is_over() is given it */
    const struct request *request;
    const _Atomic bool *stop; /* of the pool */
    int64_t deadline_ns;
    enum end end_by; /* why it ended */
    int64_t id;
    int64_t row;
    int64_t epoch;
    int64_t end;        /* positions below it are listed */
    bool over;          /* the stream has completed the epoch */
    int64_t *positions; /* owned: all of the epoch */
    size_t draws;       /* their number */
    size_t count;       /* how many of them are below `end` */
};

static void release_search(struct request *request)
{
    struct search *search = request->api->work;
    free(search->positions);
    free(search);
}

/* ---- the question ------------------------------------------------------- */

static enum error read_query(const struct request *request, struct search *search,
                             char stream[STREAM_NAME_BYTES])
{
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error)
        return error;
    if (!uri_query_get(&query, "id"))
        error = error_set(ERROR_USAGE, "id is missing: /where?id=17 asks for the unit 17");
    if (!error)
        error = uri_query_integer(&query, "id", 0, INT64_MAX, -1, &search->id);
    if (!error)
        error = uri_query_integer(&query, "epoch", 0, INT64_MAX, -1, &search->epoch);
    if (!error)
        error = stream_name_of_query(&query, stream);
    if (!error)
        error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Determines the epoch of the query, and the stream's progress in it. */
static enum error settle_epoch(struct stream *stream, struct search *search)
{
    const struct batching *batching = &stream_plan(stream)->batching;
    int64_t epochs =
        batching->epochs > 0 ? batching->epochs : POSITION_LIMIT / batching->epoch_positions;
    struct stream_status status;
    stream_status(stream, &status);
    if (search->epoch < 0) /* at the end: the last one */
        search->epoch = smaller(status.epoch, epochs - 1);
    if (search->epoch >= epochs)
        return error_set(ERROR_NOT_FOUND,
                         "epoch=%" PRId64 ": this stream has the epochs 0 to %" PRId64,
                         search->epoch, epochs - 1);
    search->end = smaller(status.position, (search->epoch + 1) * batching->epoch_positions);
    search->over = search->end == (search->epoch + 1) * batching->epoch_positions;
    return OK;
}

static enum error settle(struct request *request, const struct service *service,
                         struct search *search)
{
    char stream[STREAM_NAME_BYTES];
    enum error error = read_query(request, search, stream);
    if (!error)
        error = handler_take_stream(request, service, stream);
    if (!error)
        error = settle_epoch(request->api->stream, search);
    if (error)
        return error;
    search->row = frame_find(stream_plan(request->api->stream)->frame, search->id);
    if (search->row < 0)
        return error_set(ERROR_NOT_FOUND, "id=%" PRId64 ": the stream's frame has no such unit",
                         search->id);
    return OK;
}

/* ---- the response ------------------------------------------------------- */

/* Skipped positions are not done: only a seek back makes them ahead again. */
static const char *const state_names[] = {[PLACE_AHEAD] = "ahead",
                                          [PLACE_LEASED] = "leased",
                                          [PLACE_DONE] = "done",
                                          [PLACE_SKIPPED] = "ahead"};

static void add_unit(struct buffer *body, const struct request *request,
                     const struct search *search)
{
    const struct sampling_plan *plan = stream_plan(request->api->stream);
    uint32_t label = frame_label(plan->frame, search->row);
    buffer_print(body, "{\"id\":%" PRId64 ",\"label\":", search->id);
    label_texts_add_json(plan->label_texts, label, body); /* with its ',' */
    buffer_print(body, "\"epoch\":%" PRId64, search->epoch);
}

static void add_place(struct buffer *body, const struct request *request, int64_t position)
{
    struct stream_place place;
    stream_where(request->api->stream, position, &place);
    buffer_print(body, ",\"state\":\"%s\"%s", state_names[place.state],
                 place.state == PLACE_SKIPPED ? ",\"passed\":true" : "");
    if (place.worker[0])
        buffer_print(body, ",\"worker\":\"%s\",\"seq\":%" PRId64 ",\"attempt\":%" PRId64,
                     place.worker, place.seq, place.attempt);
}

static enum MHD_Result respond_position(struct request *request, const struct search *search,
                                        int64_t position)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    add_unit(&body, request, search);
    buffer_print(&body, ",\"position\":%" PRId64, position);
    add_place(&body, request, position);
    enum error error = buffer_add_text(&body, "}\n");
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}

static void add_positions(struct buffer *body, const struct search *search)
{
    buffer_add_text(body, ",\"positions\":[");
    for (size_t i = 0; i < search->count; i++)
        buffer_print(body, "%s%" PRId64, i > 0 ? "," : "", search->positions[i]);
    buffer_print(body, "],\"draws\":%zu", search->draws);
}

/* The state is that of its last occurrence; else it may still come, or the epoch is over without
 * it. */
static enum MHD_Result respond_positions(struct request *request, struct service *service)
{
    const struct search *search = request->api->work;
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    (void)service;
    enum error error = api_request_outcome(request);
    if (error == ERROR_CANCELLED && search->end_by == END_DEADLINE)
        error = error_set(ERROR_UNAVAILABLE,
                          "id=%" PRId64 ": its positions in epoch %" PRId64
                          " were searched for %d s, which is the limit; an epoch that long is "
                          "better asked for by index=",
                          search->id, search->epoch, SEARCH_MS / 1000);
    else if (error == ERROR_CANCELLED)
        error = error_set(ERROR_UNAVAILABLE, "the server is stopping");
    if (error)
        return response_error(request, error);
    add_unit(&body, request, search);
    add_positions(&body, search);
    if (search->count > 0)
        add_place(&body, request, search->positions[search->count - 1]);
    else
        buffer_print(&body, ",\"state\":\"%s\"",
                     state_names[search->over ? PLACE_DONE : PLACE_AHEAD]);
    error = buffer_add_text(&body, "}\n");
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}

static bool is_over(const struct order_search *order_search)
{
    struct search *search = (struct search *)order_search;
    if (*search->stop || stop_requested())
        search->end_by = END_SERVER;
    else if (request_is_abandoned(search->request))
        search->end_by = END_CLIENT;
    else if (clock_left_ms(search->deadline_ns) <= 0)
        search->end_by = END_DEADLINE;
    return search->end_by != END_FOUND;
}

/* The deadline starts here, not while other searches run. */
static enum error find_positions(struct request *request, const _Atomic bool *stop)
{
    struct search *search = request->api->work;
    const struct sampling_plan *plan = stream_plan(request->api->stream);
    int64_t end = (search->epoch + 1) * plan->batching.epoch_positions;
    search->order_search.is_over = is_over;
    search->request = request;
    search->stop = stop;
    search->deadline_ns = clock_deadline_ns(SEARCH_MS);
    enum error error = order_positions(plan->order, search->row, search->epoch, end,
                                       &search->order_search, &search->positions, &search->draws);
    while (!error && search->count < search->draws &&
           search->positions[search->count] < search->end)
        search->count++;
    return error;
}

static enum MHD_Result respond_not_chosen(struct request *request, const struct search *search)
{
    enum error error = error_set(ERROR_NOT_FOUND,
                                 "id=%" PRId64 ": this unit is not among those of epoch %" PRId64
                                 " that the design chose",
                                 search->id, search->epoch);
    return response_error(request, error);
}

/* Can it come at all? Not if its label's share, or its own weight, is 0. */
static bool has_a_chance(const struct order *order, int64_t row)
{
    double probability;
    order_probabilities(order, &row, 1, &probability);
    return probability > 0;
}

enum MHD_Result route_where(struct request *request, struct service *service)
{
    struct search *search = calloc(1, sizeof(*search));
    if (!search)
        return response_error(request, error_set_memory(sizeof(*search), "a question"));
    request->api->work = search;
    request->api->release = release_search;
    enum error error = settle(request, service, search);
    if (error)
        return response_error(request, error);
    const struct order *order = stream_plan(request->api->stream)->order;
    if (!has_a_chance(order, search->row))
        return respond_not_chosen(request, search);
    if (order_repeats(order))
        return handler_search(request, find_positions, respond_positions);
    int64_t position = order_position(order, search->row, search->epoch);
    if (position >= 0)
        return respond_position(request, search, position);
    return respond_not_chosen(request, search);
}
