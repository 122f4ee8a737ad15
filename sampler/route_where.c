/*
 * GET /where: what has become of a unit in one epoch of a stream. In closed form where a unit comes
 * at most once; else its positions are searched for, in the slow lane.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/handler.h"
#include "sampler/reply.h"
#include "sampler/routes.h"

#define ANSWER_LIMIT_BYTES ((size_t)1 << 30)

struct search {
    int64_t id;
    int64_t row;
    int64_t epoch;
    int64_t end;        /* positions below it are told */
    int64_t *positions; /* owned */
    size_t count;
};

static void release_search(struct request *request)
{
    struct search *search = request->work;
    free(search->positions);
    free(search);
}

/* ---- the question ---------------------------------------------------------------------------- */

static enum error read_query(const struct request *request, struct search *search,
                             char stream[STREAM_NAME_BYTES])
{
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error != OK)
        return error;
    if (!uri_query_get(&query, "id"))
        error = error_set(ERROR_USAGE, "id is missing: /where?id=17 asks for the unit 17");
    if (error == OK)
        error = uri_query_integer(&query, "id", 0, INT64_MAX, -1, &search->id);
    if (error == OK)
        error = uri_query_integer(&query, "epoch", 0, INT64_MAX, -1, &search->epoch);
    if (error == OK)
        error = handler_stream_name(&query, stream);
    if (error == OK)
        error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The epoch that is asked for, and how far the stream is in it. */
static enum error settle_epoch(struct stream *stream, struct search *search)
{
    const struct cut *cut = &stream_walk(stream)->cut;
    int64_t epochs = cut->epochs > 0 ? cut->epochs : CUT_POSITION_LIMIT / cut->epoch_positions;
    struct stream_status status;
    stream_status(stream, &status);
    if (search->epoch < 0) /* at the end: the last one */
        search->epoch = smaller(status.epoch, epochs - 1);
    if (search->epoch >= epochs)
        return error_set(ERROR_NOT_FOUND,
                         "epoch=%" PRId64 ": this stream has the epochs 0 to %" PRId64,
                         search->epoch, epochs - 1);
    search->end = smaller(status.position, (search->epoch + 1) * cut->epoch_positions);
    return OK;
}

static enum error settle(struct request *request, const struct service *service,
                         struct search *search)
{
    char stream[STREAM_NAME_BYTES];
    enum error error = read_query(request, search, stream);
    if (error == OK)
        error = handler_take_stream(request, service, stream);
    if (error == OK)
        error = settle_epoch(request->stream, search);
    if (error != OK)
        return error;
    search->row = frame_find(stream_walk(request->stream)->frame, search->id);
    if (search->row < 0)
        return error_set(ERROR_NOT_FOUND, "id=%" PRId64 ": the stream's frame has no such unit",
                         search->id);
    return OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const char *const state_names[] = {"ahead", "leased", "done"};

static enum error add_unit(struct buffer *body, const struct request *request,
                           const struct search *search)
{
    const struct walk *walk = stream_walk(request->stream);
    uint32_t label = frame_label(walk->frame, search->row);
    const struct label_text *text = &walk->label_texts->json[label];
    char *longer = walk->label_texts->json_long[label];
    enum error error = buffer_print(body, "{\"id\":%" PRId64 ",\"label\":", search->id);
    if (error == OK)
        error = buffer_add(body, longer ? longer : text->bytes, text->length); /* with its ',' */
    return error == OK ? buffer_print(body, "\"epoch\":%" PRId64, search->epoch) : error;
}

static enum error add_place(struct buffer *body, const struct request *request, int64_t position)
{
    struct stream_place place;
    stream_where(request->stream, position, &place);
    enum error error = buffer_print(body, ",\"state\":\"%s\"", state_names[place.state]);
    if (error != OK || !place.worker[0])
        return error;
    return buffer_print(body, ",\"worker\":\"%s\",\"seq\":%" PRId64 ",\"attempt\":%" PRId64,
                        place.worker, place.seq, place.attempt);
}

static enum MHD_Result reply_position(struct request *request, const struct search *search,
                                      int64_t position)
{
    struct buffer body = BUFFER_INIT(ANSWER_LIMIT_BYTES);
    enum error error = add_unit(&body, request, search);
    if (error == OK)
        error = buffer_print(&body, ",\"position\":%" PRId64, position);
    if (error == OK)
        error = add_place(&body, request, position);
    if (error == OK)
        error = buffer_add_text(&body, "}\n");
    return reply_json(request, error, MHD_HTTP_OK, &body, NULL);
}

static enum error add_positions(struct buffer *body, const struct search *search)
{
    enum error error = buffer_add_text(body, ",\"positions\":[");
    for (size_t i = 0; i < search->count && error == OK; i++)
        error = buffer_print(body, "%s%" PRId64, i > 0 ? "," : "", search->positions[i]);
    return error == OK ? buffer_add_text(body, "]") : error;
}

/* The state is that of the last time it came. */
static enum MHD_Result reply_positions(struct request *request, struct service *service)
{
    const struct search *search = request->work;
    struct buffer body = BUFFER_INIT(ANSWER_LIMIT_BYTES);
    (void)service;
    enum error error = request->outcome == OK ? OK : error_restore(&request->report);
    if (error == ERROR_CANCELLED)
        error = error_set(ERROR_UNAVAILABLE, "the server is stopping");
    if (error == OK)
        error = add_unit(&body, request, search);
    if (error == OK)
        error = add_positions(&body, search);
    if (error == OK && search->count > 0)
        error = add_place(&body, request, search->positions[search->count - 1]);
    else if (error == OK)
        error = buffer_add_text(&body, ",\"state\":\"ahead\"");
    if (error == OK)
        error = buffer_add_text(&body, "}\n");
    return reply_json(request, error, MHD_HTTP_OK, &body, NULL);
}

static void find_positions(struct slow_job *job, const _Atomic bool *stop)
{
    struct request *request = (struct request *)((char *)job - offsetof(struct request, job));
    struct search *search = request->work;
    (void)stop; /* the order looks at stop_requested() */
    request->outcome =
        order_positions(stream_walk(request->stream)->order, search->row, search->epoch,
                        search->end, &search->positions, &search->count);
    error_report_take(request->outcome, &request->report);
    request_resume(request);
}

enum MHD_Result route_where(struct request *request, struct service *service)
{
    struct search *search = calloc(1, sizeof(*search));
    if (!search)
        return reply_error(request, error_set_memory(sizeof(*search), "a question"));
    request->work = search;
    request->release = release_search;
    enum error error = settle(request, service, search);
    if (error != OK)
        return reply_error(request, error);
    const struct order *order = stream_walk(request->stream)->order;
    if (order_repeats(order)) {
        request->job.run = find_positions;
        return handler_run_slowly(request, reply_positions);
    }
    int64_t position = order_position(order, search->row, search->epoch);
    if (position >= 0)
        return reply_position(request, search, position);
    error = error_set(ERROR_NOT_FOUND,
                      "id=%" PRId64 ": this unit is not among those of epoch %" PRId64 " that the "
                      "design chose",
                      search->id, search->epoch);
    return reply_error(request, error);
}
