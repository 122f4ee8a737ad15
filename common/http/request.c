/* SPDX-License-Identifier: MIT */
#include "common/http/request.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/http/server_state.h"
#include "common/uri.h"

static bool has_control(const char *text)
{
    while ((unsigned char)*text >= ' ' && *text != 0x7f)
        text++;
    return *text != '\0';
}

/* In place; a broken escape or a NUL stays as it is, so no existing path matches. False: it
 * contains an escaped slash, which does not separate names for a proxy that decides who may request
 * which path. */
static bool decode(char *path)
{
    bool whole = true;
    char *out = path;
    for (const char *in = path; *in; in++) {
        int high = *in == '%' ? uri_hex_digit(in[1]) : -1;
        int low = high >= 0 ? uri_hex_digit(in[2]) : -1;
        int value = low >= 0 ? high * 16 + low : 0;
        whole &= value != '/';
        if (value > 0) {
            *out++ = (char)value;
            in += 2;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return whole;
}

/* "http://host:port/path" (RFC 9112, absolute-form) -> "/path". */
static char *skip_authority(char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    if (scheme == 0)
        return target;
    char *slash = strpbrk(target + scheme, "/?");
    return slash ? slash : target;
}

static void parse_target(struct request *request, const char *target)
{
    size_t length = request->line.target_bytes;
    request->line.odd = has_control(target);
    request->too_long = length > REQUEST_TARGET_BYTES;
    if (request->too_long) {
        request->target[0] = '\0';
        return;
    }
    memcpy(request->target, target, length + 1);
    char *path = skip_authority(request->target);
    char *mark = strchr(path, '?');
    if (mark) {
        *mark = '\0';
        request->query = mark + 1;
    }
    bool whole = decode(path);
    request->path = path;
    if (whole)
        request->route =
            route_find(&request->thread->server->application->routes, path, &request->name);
}

static struct request *request_new(struct http_thread *thread)
{
    size_t room = (sizeof(struct request) + 15) / 16 * 16;
    size_t api_bytes = thread->server->application->request_bytes;
    struct request *request = calloc(1, room + api_bytes);
    if (request)
        request->api = (struct api_request *)((char *)request + room);
    return request;
}

struct request *request_take(struct http_thread *thread, struct MHD_Connection *connection,
                             const char *target)
{
    struct request *request = thread->requests;
    if (request)
        thread->requests = request->next;
    else
        request = request_new(thread);
    if (!request)
        return NULL;
    memset(request, 0, offsetof(struct request, api));
    memset(request->api, 0, thread->server->application->request_cleared_bytes);
    request->thread = thread;
    request->connection = connection;
    request->metrics = &thread->metrics;
    request->body.limit_bytes = REQUEST_BODY_BYTES;
    request->started_ns = clock_now_ns();
    request->line.target = target;
    if (!target)
        target = "";
    request->line.target_bytes = strlen(target);
    if (*target && strcmp(target, thread->memo.target) == 0) {
        request->route = thread->memo.route;
        request->recalled = true;
    } else {
        parse_target(request, target);
    }
    return request;
}

int request_path(const struct request *request)
{
    return request->route ? request->route->metrics : METRICS_OTHER;
}

void request_remember(struct request *request)
{
    struct http_thread_memo *memo = &request->thread->memo;
    const char *query = request->query ? request->query : "";
    int length = snprintf(memo->target, sizeof(memo->target), "%s%s%s", request->path,
                          request->query ? "?" : "", query);
    memo->route = request->route;
    if (length < 0 || (size_t)length >= sizeof(memo->target))
        memo->target[0] = '\0';
}

void request_release_body(struct request *request)
{
    buffer_release(&request->body);
    if (request->counted_bytes > 0)
        memory_budget_put(request->thread->bodies, request->counted_bytes);
    request->counted_bytes = 0;
}

void request_put(struct request *request)
{
    struct http_thread *thread = request->thread;
    if (request->answered) {
        event_loop_note_end(&thread->loop);
        metrics_time(request->metrics, request_path(request), clock_now_ns() - request->started_ns);
    }
    if (request->active)
        atomic_fetch_sub(&thread->active, 1);
    if (thread->server->application->request_release)
        thread->server->application->request_release(request);
    http_thread_output_put(request->output);
    request_release_body(request);
    connection_rest(request->peer);
    if (request->peer)
        request->peer->request = NULL;
    request->next = thread->requests;
    thread->requests = request;
}

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct header_list {
    const char *name;
    char *text; /* [REQUEST_LIST_BYTES] */
    size_t length;
};

static enum MHD_Result add_line(void *context, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    struct header_list *list = context;
    size_t length = value ? strlen(value) : 0;
    (void)kind;
    if (length == 0 || strcasecmp(name, list->name) != 0 ||
        length + 1 >= REQUEST_LIST_BYTES - list->length)
        return MHD_YES;
    memcpy(list->text + list->length, value, length);
    list->length += length;
    list->text[list->length++] = ',';
    return MHD_YES;
}

size_t request_header_list(const struct request *request, const char *name,
                           char ret_list[REQUEST_LIST_BYTES])
{
    struct header_list list = {name, ret_list, 0};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_line, &list);
    ret_list[list.length] = '\0';
    return list.length;
}

void request_peer(const struct request *request, char out[REQUEST_PEER_BYTES])
{
    char host[64];
    char port[16];
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    out[0] = '\0';
    if (!address)
        return;
    bool six = address->sa_family == AF_INET6;
    socklen_t length = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, REQUEST_PEER_BYTES, six ? "[%s]:%s" : "%s:%s", host, port);
}

bool request_may(const struct request *request, int scopes, const char *name)
{
    if (request->token)
        return bearer_token_may(request->token, scopes, name);
    return (guard_anonymous(request->thread->server->guard) & scopes) != 0;
}

bool request_is_abandoned(const struct request *request)
{
    const struct connection *connection = request->peer;
    struct pollfd peer = {.fd = connection ? connection->descriptor : -1, .events = POLLRDHUP};
    return poll(&peer, 1, 0) == 1;
}

void request_suspend(struct request *request, request_continuation again)
{
    request->again = again;
    connection_enter(request->peer, CONNECTION_WORKING, 0);
    MHD_suspend_connection(request->connection);
}

void request_resume(struct request *request)
{
    struct http_thread *thread = request->thread; /* the request may be over before it is woken */
    MHD_resume_connection(request->connection);
    event_loop_wake(&thread->loop);
}

void request_gate(struct request *request)
{
    atomic_store(&request->gate, 0);
}

/* The second caller of the two resumes the connection. */
void request_pass(struct request *request)
{
    if (atomic_fetch_add(&request->gate, 1) == 1)
        request_resume(request);
}

void request_wait(struct request *request, request_continuation again)
{
    request_suspend(request, again);
    request_pass(request);
}
