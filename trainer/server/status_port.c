/* SPDX-License-Identifier: MIT */
#include "trainer/server/status_port.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/http/metrics.h"
#include "common/http/response.h"
#include "common/http/server.h"

#define CONNECTIONS 256
#define PATIENCE_SECONDS 5 /* as long as for a first frame */

struct status_port {
    struct guard *guard;
    struct server *server;
};

/* The sampler and the trainer may share one token file. Scopes that only the sampler knows allow
 * nothing here, but are checked as there, so that either program reports a mistake in the file. */
enum { SCOPE_SAMPLERS = 2 };
static const struct token_scope scopes[] = {
    {"read", SCOPE_READ}, {"draw", SCOPE_SAMPLERS}, {"admin", SCOPE_SAMPLERS}};
static const struct token_grammar tokens = {.scopes = scopes,
                                            .scope_count = sizeof(scopes) / sizeof(*scopes),
                                            .noun = "stream",
                                            .nouns = "streams",
                                            .names_optional = true};

static enum error open_guard(const struct guard_options *guard, struct guard **ret_guard)
{
    struct guard_options options = *guard;
    options.grammar = &tokens;
    return guard_open(&options, ret_guard);
}

/* Takes the descriptor. */
static enum error open_server(struct status_port *port, int descriptor,
                              const struct application *application, struct service *service)
{
    struct server_options options = {.application = application,
                                     .threads = 1,
                                     .connections = CONNECTIONS,
                                     .patience_seconds = PATIENCE_SECONDS,
                                     .response_bytes = 4 * STATUS_PORT_BODY_BYTES,
                                     .body_bytes = STATUS_PORT_BODY_BYTES,
                                     .guard = port->guard};
    enum error error = server_open(descriptor, &options, &port->server);
    if (!error)
        server_set_service(port->server, service);
    return error;
}

enum error status_port_open(int descriptor, const struct guard_options *guard,
                            const struct application *application, struct service *service,
                            struct status_port **ret_port)
{
    struct status_port *port = array_new(1, sizeof(*port), "an HTTP server");
    enum error error = port ? open_guard(guard, &port->guard) : ERROR_MEMORY;
    if (!error)
        error = open_server(port, descriptor, application, service);
    else if (descriptor >= 0)
        close(descriptor);
    if (error) {
        status_port_close(port);
        return error;
    }
    *ret_port = port;
    return OK;
}

void status_port_close(struct status_port *port)
{
    if (!port)
        return;
    server_close(port->server);
    guard_close(port->guard);
    free(port);
}

void status_port_add(struct status_port *port, int descriptor,
                     const struct sockaddr_storage *address, socklen_t length)
{
    server_add_connection(port->server, descriptor, address, length);
}

/* ---- answers ------------------------------------------------------------ */

enum MHD_Result status_port_ok(struct request *request)
{
    return response_static(request, "text/plain; charset=utf-8", "ok\n", strlen("ok\n"), NULL);
}

enum MHD_Result status_port_healthz(struct request *request, struct service *service)
{
    (void)service;
    return status_port_ok(request);
}

static const char *const path_names[METRICS_PATHS] = {[STATUS_PORT_HEALTHZ] = "/healthz",
                                                      [STATUS_PORT_READYZ] = "/readyz",
                                                      [STATUS_PORT_STATUS] = "/status",
                                                      [STATUS_PORT_METRICS] = "/metrics",
                                                      [METRICS_OTHER] = "other"};

enum MHD_Result status_port_metrics(struct request *request, const char *program,
                                    struct buffer *body)
{
    const struct metrics_words words = {
        .program = program,
        .paths = path_names,
        .label = "none",
        .items = "items",
        .requests_help = "HTTP requests answered, by path and status.",
        .items_help = "Nothing.",
        .bytes_help = "Bytes of HTTP responses' bodies.",
    };
    struct metrics sum = {0};
    struct metrics_source source = {.sum = &sum};
    http_threads_metrics(&request->thread->server->threads, &sum);
    enum error error = metrics_add_text(body, &words, &source, 1);
    if (error) {
        buffer_release(body);
        return response_error(request, error);
    }
    return response_buffer(request, METRICS_CONTENT_TYPE, body);
}
