/* SPDX-License-Identifier: MIT */
#include "common/http/dispatch.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "common/http/connection.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/text.h"

#define HEADER_LIMIT_BYTES (8 << 10)

static enum MHD_Result refuse_method(struct request *request)
{
    const char *method = request->method_name;
    char detail[TEXT_QUOTE_BYTES + ROUTE_ALLOW_BYTES + 64];
    char quoted[TEXT_QUOTE_BYTES];
    char allow[ROUTE_ALLOW_BYTES];
    route_allow(request->route, allow);
    snprintf(detail, sizeof(detail), "method %s: this path answers %s",
             text_quote(quoted, sizeof(quoted), method, strlen(method)), allow);
    return response_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED, detail);
}

static enum MHD_Result refuse_path(struct request *request)
{
    const char *path = request->path ? request->path : "";
    char detail[TEXT_QUOTE_BYTES + 128];
    char quoted[TEXT_QUOTE_BYTES];
    snprintf(detail, sizeof(detail), "there is no path %s; %s",
             text_quote(quoted, sizeof(quoted), path, strlen(path)),
             request->thread->server->application->paths_detail);
    return response_problem(request, MHD_HTTP_NOT_FOUND, detail);
}

static enum MHD_Result refuse_phase(struct request *request, enum server_phase phase)
{
    const struct application *application = request->thread->server->application;
    return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            phase == SERVER_STARTING ? application->starting_detail
                                                     : "the server is stopping");
}

static bool header_is_over(struct request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && info->header_size > HEADER_LIMIT_BYTES;
}

static enum MHD_Result refuse_connection(struct request *request)
{
    return response_last(request, MHD_HTTP_SERVICE_UNAVAILABLE, request->peer->surplus);
}

static enum MHD_Result refuse_target(struct request *request)
{
    return response_problem(request, MHD_HTTP_URI_TOO_LONG,
                            "the request target is longer than 6000 bytes");
}

static enum MHD_Result refuse_header(struct request *request)
{
    return response_problem(request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "the request's header is longer than 8192 bytes");
}

/* Notes the token; false: it is unknown, or required and missing. */
static bool is_let_in(struct request *request)
{
    const struct guard *guard = request->thread->server->guard;
    const struct bearer_tokens *tokens = guard_tokens(guard);
    const char *authorization = request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!tokens || !authorization)
        return guard_anonymous(guard) != 0;
    request->token = bearer_tokens_find(tokens, authorization);
    return request->token != NULL;
}

static enum MHD_Result refuse_stranger(struct request *request)
{
    return response_problem(request, MHD_HTTP_UNAUTHORIZED,
                            request_header(request, MHD_HTTP_HEADER_AUTHORIZATION)
                                ? "the token is unknown; Authorization: Bearer TOKEN was expected"
                                : RESPONSE_TOKEN_NEEDED);
}

bool dispatch_lets_in(struct request *request, int scopes, enum MHD_Result *ret_refusal)
{
    if (!is_let_in(request))
        *ret_refusal = refuse_stranger(request);
    else if (!request_may(request, scopes, NULL))
        *ret_refusal = response_forbidden(request, scopes, NULL);
    else
        return true;
    return false;
}

static enum MHD_Result refuse_site(struct request *request)
{
    return response_problem(request, MHD_HTTP_FORBIDDEN, RESPONSE_CROSS_SITE);
}

static enum MHD_Result refuse_reading(struct request *request)
{
    return response_forbidden(request, SCOPE_READ, NULL);
}

static enum MHD_Result refuse_change(struct request *request)
{
    return response_forbidden(request, request->route->changes, request->name);
}

static bool reads(const struct request *request)
{
    return (request->method & (METHOD_GET | METHOD_HEAD)) != 0;
}

/* May the client use this method of the path? NULL: yes. */
static request_refusal refusal_of_method(const struct request *request, const struct route *route)
{
    if (!route_handler_of(route, request->method))
        return refuse_method;
    if (reads(request))
        return route->scoped || route->open || request_may(request, SCOPE_READ, NULL)
                   ? NULL
                   : refuse_reading;
    if (request->cross_site)
        return refuse_site;
    return request_may(request, route->changes, request->name) ? NULL : refuse_change;
}

/* The refusal that line and header alone decide; NULL: none. Notes the token. */
static request_refusal refusal_of(struct request *request)
{
    const struct route *route = request->route;
    if (request->peer && request->peer->surplus)
        return refuse_connection;
    if (request->too_long)
        return refuse_target;
    if (header_is_over(request))
        return refuse_header;
    if (!(route && route->open) && !is_let_in(request))
        return refuse_stranger;
    if (!route && (!request->path || strcmp(request->path, "*") != 0))
        return refuse_path;
    if (request->method == METHOD_OPTIONS)
        return NULL;
    return route ? refusal_of_method(request, route) : refuse_method;
}

enum MHD_Result dispatch_header(struct request *request, bool expects)
{
    request->refusal = refusal_of(request);
    request->last = request->refusal && expects;
    return request->last ? request->refusal(request) : MHD_YES;
}

static enum MHD_Result hand_over(const struct server *server, struct request *request)
{
    struct service *service = server_service(server);
    enum server_phase phase = server_phase(server);
    const struct route *route = request->route;
    if (request->method == METHOD_OPTIONS)
        return response_allow(request);
    if (!route->always && (!service || phase == SERVER_CLOSED))
        return refuse_phase(request, phase);
    return route_handler_of(route, request->method)(request, service);
}

enum MHD_Result dispatch(struct request *request)
{
    const struct server *server = request->thread->server;
    if (request->again)
        return request->again(request, server_service(server));
    request_refusal refusal = refusal_of(request);
    if (!refusal)
        refusal = request->refusal; /* the body was not kept */
    return refusal ? refusal(request) : hand_over(server, request);
}
