/* SPDX-License-Identifier: MIT */
#include "common/http/response.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/http/http_problem.h"
#include "common/http/refusals.h"
#include "common/http/server_state.h"

#define PROBLEM_LIMIT_BYTES (16 << 10)
/* The minimum of Retry-After: what a request waits for may end at any moment. */
#define RETRY_SECONDS "1"

static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_all(struct MHD_Response *response, const struct response_header *headers,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!add(response, headers[i].name, headers[i].value))
            return false;
    }
    return true;
}

static bool is_moving(const struct request *request)
{
    return !request->route || request->route->no_store ||
           (request->method & (METHOD_POST | METHOD_DELETE)) != 0;
}

/* Takes the response. */
static enum MHD_Result queue(struct request *request, int status, struct MHD_Response *response,
                             size_t body_bytes)
{
    bool complete = response != NULL;
    if (complete && is_moving(request))
        complete = add(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (complete && (request->last || server_phase(request->thread->server) >= SERVER_DRAINING))
        complete = add(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (!complete) {
        if (response)
            MHD_destroy_response(response);
        return MHD_NO; /* no memory: the connection is closed */
    }
    bool carries = status == MHD_HTTP_OK && !request->head;
    request->answered = true;
    event_loop_note_response(&request->thread->loop);
    connection_enter(request->peer, CONNECTION_SENDING, body_bytes);
    metrics_count(request->metrics, request_path(request), status, request->head ? 0 : body_bytes,
                  carries ? request->items : 0);
    enum MHD_Result result =
        MHD_queue_response(request->connection, (unsigned int)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result destroy(struct MHD_Response *response)
{
    if (response)
        MHD_destroy_response(response);
    return MHD_NO;
}

enum MHD_Result response_output(struct request *request, const char *content_type,
                                const struct response_header *headers, size_t header_count)
{
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(
        request->output_bytes, request->output->bytes, http_thread_output_put_bytes);
    if (!response)
        return MHD_NO;
    request->output = NULL;
    if (!add(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) ||
        !add_all(response, headers, header_count))
        return destroy(response);
    return queue(request, MHD_HTTP_OK, response, request->output_bytes);
}

/* A large body, counted until it was sent. */
struct counted_body {
    struct memory_budget *memory;
    size_t bytes;
    char *data; /* owned */
};

static void free_counted(void *context)
{
    struct counted_body *body = context;
    memory_budget_put(body->memory, body->bytes);
    free(body->data);
    free(body);
}

/* Takes the buffer's memory, except on failure: *ret_response is NULL if there is no memory. */
static enum error respond_with(struct request *request, struct buffer *buffer,
                               struct MHD_Response **ret_response)
{
    struct memory_budget *memory = request->thread->responses;
    *ret_response = NULL;
    if (buffer->length <= RESPONSE_SMALL_BYTES) {
        *ret_response =
            MHD_create_response_from_buffer(buffer->length, buffer->data, MHD_RESPMEM_MUST_FREE);
        return OK;
    }
    struct counted_body *body = malloc(sizeof(*body));
    if (!body)
        return OK;
    enum error error = memory_budget_take(memory, buffer->length);
    if (error) {
        free(body);
        return error;
    }
    char *trimmed = realloc(buffer->data, buffer->length); /* the spare room goes */
    if (trimmed)
        buffer->data = trimmed;
    *body = (struct counted_body){memory, buffer->length, buffer->data};
    *ret_response = MHD_create_response_from_buffer_with_free_callback_cls(body->bytes, body->data,
                                                                           free_counted, body);
    if (!*ret_response) {
        memory_budget_put(memory, body->bytes);
        free(body);
    }
    return OK;
}

static enum MHD_Result response_taken(struct request *request, int status, const char *content_type,
                                      struct buffer *buffer, const struct response_header *headers,
                                      size_t header_count)
{
    size_t length = buffer->length;
    struct MHD_Response *response;
    enum error error = respond_with(request, buffer, &response);
    if (!response) {
        buffer_release(buffer);
        return !error ? MHD_NO : response_error(request, error);
    }
    *buffer = (struct buffer)BUFFER_INIT(buffer->limit_bytes);
    if (!add(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) ||
        !add_all(response, headers, header_count))
        return destroy(response);
    return queue(request, status, response, length);
}

enum MHD_Result response_buffer(struct request *request, const char *content_type,
                                struct buffer *buffer)
{
    return response_taken(request, MHD_HTTP_OK, content_type, buffer, NULL, 0);
}

enum MHD_Result response_json(struct request *request, enum error error, int status,
                              struct buffer *buffer, const struct response_header *header)
{
    if (!error)
        error = buffer->error;
    if (!error)
        return response_taken(request, status, JSON_CONTENT_TYPE, buffer, header, header != NULL);
    buffer_release(buffer);
    return response_error(request, error);
}

enum MHD_Result response_static(struct request *request, const char *content_type,
                                const char *bytes, size_t length,
                                const struct response_header *header)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)bytes, MHD_RESPMEM_PERSISTENT);
    if (!response || !add(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) ||
        !add_all(response, header, header != NULL))
        return destroy(response);
    return queue(request, MHD_HTTP_OK, response, length);
}

static struct MHD_Response *empty_response(void)
{
    return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
}

enum MHD_Result response_empty(struct request *request, int status)
{
    return queue(request, status, empty_response(), 0);
}

enum MHD_Result response_allow(struct request *request)
{
    char allow[ROUTE_ALLOW_BYTES];
    struct MHD_Response *response = empty_response();
    route_allow(request->route, allow);
    if (!response || !add(response, MHD_HTTP_HEADER_ALLOW, allow))
        return destroy(response);
    return queue(request, MHD_HTTP_NO_CONTENT, response, 0);
}

static enum MHD_Result response_problem_with(struct request *request, int status, const char *kind,
                                             const char *detail)
{
    char allow[ROUTE_ALLOW_BYTES];
    struct response_header header = {NULL, NULL};
    struct buffer body = BUFFER_INIT(PROBLEM_LIMIT_BYTES);
    if (status == MHD_HTTP_UNAUTHORIZED || status == MHD_HTTP_FORBIDDEN)
        refusals_log(request, status, detail);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        route_allow(request->route, allow);
        header = (struct response_header){MHD_HTTP_HEADER_ALLOW, allow};
    } else if (status == MHD_HTTP_UNAUTHORIZED) {
        header =
            (struct response_header){MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tombola\""};
    } else if (status == MHD_HTTP_SERVICE_UNAVAILABLE) {
        header = (struct response_header){MHD_HTTP_HEADER_RETRY_AFTER, RETRY_SECONDS};
    }
    if (http_problem_add(&body, status, kind, detail)) {
        buffer_release(&body);
        return MHD_NO;
    }
    return response_taken(request, status, HTTP_PROBLEM_CONTENT_TYPE, &body, &header,
                          header.name != NULL);
}

enum MHD_Result response_problem(struct request *request, int status, const char *detail)
{
    return response_problem_with(request, status, NULL, detail);
}

enum MHD_Result response_last(struct request *request, int status, const char *detail)
{
    request->last = true;
    return response_problem(request, status, detail);
}

/* Through the TLS session if there is one, else on the socket: nothing else is being sent on it. */
static void send_bytes(struct MHD_Connection *connection, const struct buffer *bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int descriptor = info->connect_fd; /* libmicrohttpd 1.0 uses the same union for every answer */
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info && info->tls_session)
        (void)gnutls_record_send(info->tls_session, bytes->data, bytes->length);
    else
        (void)!send(descriptor, bytes->data, bytes->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(descriptor, SHUT_RDWR);
}

void response_at_once(struct request *request, int status, const char *detail)
{
    struct buffer body = BUFFER_INIT(PROBLEM_LIMIT_BYTES);
    struct buffer response = BUFFER_INIT(2 * PROBLEM_LIMIT_BYTES);
    enum error error = http_problem_add(&body, status, NULL, detail);
    if (!error)
        error = buffer_print(&response,
                             "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: %s\r\n"
                             "Content-Length: %zu\r\n\r\n%.*s",
                             status, http_status_title(status), HTTP_PROBLEM_CONTENT_TYPE,
                             body.length, (int)body.length, body.data);
    if (!error) {
        request->answered = true;
        event_loop_note_response(&request->thread->loop);
        metrics_count(request->metrics, request_path(request), status, body.length, 0);
        send_bytes(request->connection, &response);
    }
    buffer_release(&body);
    buffer_release(&response);
}

enum MHD_Result response_error(struct request *request, enum error error)
{
    return response_problem_with(request, http_status_of_error(error), error_kind(),
                                 error_message());
}

enum MHD_Result response_forbidden(struct request *request, int scopes, const char *name)
{
    char detail[256];
    const struct token_grammar *grammar = guard_grammar(request->thread->server->guard);
    const char *token = request->token ? bearer_token_name(request->token) : NULL;
    if (!token && guard_tokens(request->thread->server->guard))
        return response_problem(request, MHD_HTTP_UNAUTHORIZED, RESPONSE_TOKEN_NEEDED);
    if (!token)
        snprintf(detail, sizeof(detail),
                 "the scope \"%s\" needs a token, and there is no --token-file",
                 token_scope_name(grammar, scopes));
    else if (name && bearer_token_may(request->token, scopes, NULL))
        snprintf(detail, sizeof(detail), "the token \"%.64s\" is not for the %s \"%.64s\"", token,
                 grammar->noun, name);
    else
        snprintf(detail, sizeof(detail), "the token \"%.64s\" lacks the scope \"%s\"", token,
                 token_scope_name(grammar, scopes));
    return response_problem(request, MHD_HTTP_FORBIDDEN, detail);
}
