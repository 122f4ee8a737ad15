#include "sampler/reply.h"

#include <stdlib.h>

#include "common/http_problem.h"
#include "sampler/routes.h"
#include "sampler/server.h"

#define PROBLEM_LIMIT_BYTES (16 << 10)

static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* Takes the response. */
static enum MHD_Result queue(struct request *request, int status, struct MHD_Response *response,
                             size_t body_bytes)
{
    bool complete = response != NULL;
    if (complete && request->route && request->route->no_store)
        complete = add(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (complete && server_phase(request->worker->server) >= SERVER_DRAINING)
        complete = add(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (!complete) {
        if (response)
            MHD_destroy_response(response);
        return MHD_NO; /* no memory: the connection is closed */
    }
    bool carries = status == MHD_HTTP_OK && !request->head;
    request->answered = true;
    metrics_count(&request->worker->metrics, request_path(request), status,
                  request->head ? 0 : body_bytes, carries ? (uint64_t)request->span.size : 0);
    enum MHD_Result result =
        MHD_queue_response(request->connection, (unsigned int)status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_output(struct request *request, const char *content_type,
                             const struct reply_header *headers, size_t header_count)
{
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(
        request->output_bytes, request->output->bytes, worker_output_put_bytes);
    if (!response)
        return MHD_NO;
    request->output = NULL;
    bool complete = add(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (size_t i = 0; complete && i < header_count; i++)
        complete = add(response, headers[i].name, headers[i].value);
    if (!complete) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    return queue(request, MHD_HTTP_OK, response, request->output_bytes);
}

static enum MHD_Result reply_taken(struct request *request, int status, const char *content_type,
                                   struct buffer *buffer, const struct reply_header *header)
{
    size_t length = buffer->length;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, buffer->data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        buffer_release(buffer);
        return MHD_NO;
    }
    *buffer = (struct buffer)BUFFER_INIT(buffer->limit_bytes);
    bool complete = add(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (complete && header)
        complete = add(response, header->name, header->value);
    if (!complete) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    return queue(request, status, response, length);
}

enum MHD_Result reply_buffer(struct request *request, const char *content_type,
                             struct buffer *buffer)
{
    return reply_taken(request, MHD_HTTP_OK, content_type, buffer, NULL);
}

static struct MHD_Response *empty_response(void)
{
    return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
}

enum MHD_Result reply_empty(struct request *request, int status)
{
    return queue(request, status, empty_response(), 0);
}

enum MHD_Result reply_allow(struct request *request)
{
    struct MHD_Response *response = empty_response();
    if (response && !add(response, MHD_HTTP_HEADER_ALLOW, ROUTE_ALLOW)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    return queue(request, MHD_HTTP_NO_CONTENT, response, 0);
}

enum MHD_Result reply_problem(struct request *request, int status, const char *detail)
{
    static const struct reply_header allow = {MHD_HTTP_HEADER_ALLOW, ROUTE_ALLOW};
    static const struct reply_header retry = {MHD_HTTP_HEADER_RETRY_AFTER, "1"};
    struct buffer body = BUFFER_INIT(PROBLEM_LIMIT_BYTES);
    const struct reply_header *header = NULL;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        header = &allow;
    else if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        header = &retry;
    if (http_problem_add(&body, status, detail) != OK) {
        buffer_release(&body);
        return MHD_NO;
    }
    return reply_taken(request, status, HTTP_PROBLEM_CONTENT_TYPE, &body, header);
}

enum MHD_Result reply_error(struct request *request, enum error error)
{
    return reply_problem(request, http_status_of_error(error), error_message());
}
