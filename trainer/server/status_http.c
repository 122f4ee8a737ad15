/* SPDX-License-Identifier: MIT */
#include "trainer/server/status_http.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/http/metrics.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/json.h"
#include "trainer/server/status_port.h"

#define PREFIX "tombola_ps_"

/* The values that the routes report. */
struct service {
    pthread_mutex_t lock;
    struct server_status status;
};

struct status_http {
    struct service service;
    struct status_port *port;
};

/* ---- answers ------------------------------------------------------------ */

static enum MHD_Result route_readyz(struct request *request, struct service *service)
{
    pthread_mutex_lock(&service->lock);
    const char *phase = service->status.phase;
    pthread_mutex_unlock(&service->lock);
    if (strcmp(phase, "waiting") == 0)
        return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                "the parameter server waits for other servers, or for a worker "
                                "that says what is trained");
    return status_port_ok(request);
}

static void print_worker(struct buffer *body, const struct worker_status *worker)
{
    buffer_print(body,
                 "{\"name\":\"%s\",\"pushes\":%" PRId64 ",\"held\":%" PRId64
                 ",\"silent_seconds\":%.3f,\"waits\":%s,\"shared_memory\":%s}",
                 worker->name, worker->pushes, worker->held, (double)worker->silent_ms / 1000,
                 worker->waits ? "true" : "false", worker->shared ? "true" : "false");
}

/* Prints a number that only server 0 knows; < 0: it is not known. */
static void print_known(struct buffer *body, const char *name, int64_t value)
{
    if (value >= 0)
        buffer_print(body, "\"%s\":%" PRId64 ",", name, value);
}

static void print_status(struct buffer *body, const struct server_status *status)
{
    buffer_print(body,
                 "{\"server\":%" PRId64 ",\"servers\":%" PRId64 ",\"phase\":\"%s\","
                 "\"generation\":\"%016" PRIx64 "\",\"global_step\":%" PRId64 ",",
                 status->index, status->servers, status->phase, status->generation, status->step);
    if (status->waits_for[0]) { /* it may name a folder */
        buffer_add_text(body, "\"waits_for\":");
        json_add_string(body, status->waits_for);
        buffer_add_text(body, ",");
    }
    print_known(body, "train_steps", status->train_steps);
    print_known(body, "saved_step", status->saved_step);
    if (status->pause_ns >= 0)
        buffer_print(body, "\"cut_pause_seconds\":%.6f,", (double)status->pause_ns / 1e9);
    buffer_print(body,
                 "\"parameters\":%" PRId64 ",\"pushes\":%" PRId64 ",\"repeated_pushes\":%" PRId64
                 ",\"late_pushes\":%" PRId64 ",\"worker_count\":%" PRId64 ",\"workers\":[",
                 status->parameters, status->pushes, status->repeated, status->late,
                 status->worker_count);
    for (int64_t i = 0; i < status->worker_count && i < SERVER_STATUS_WORKERS; i++) {
        buffer_add_text(body, i > 0 ? "," : "");
        print_worker(body, &status->workers[i]);
    }
    buffer_add_text(body, "]}\n");
}

static enum MHD_Result route_status(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(STATUS_PORT_BODY_BYTES);
    pthread_mutex_lock(&service->lock);
    print_status(&body, &service->status);
    pthread_mutex_unlock(&service->lock);
    return response_json(request, body.error, MHD_HTTP_OK, &body, NULL);
}

/* ---- counters ----------------------------------------------------------- */

static const struct {
    const char *name, *type, *help;
    size_t offset; /* of an int64_t in struct server_status */
} families[] = {
    {PREFIX "global_step", "gauge", "Updates of this shard.", offsetof(struct server_status, step)},
    {PREFIX "train_steps", "gauge", "Where training ends. Server 0 alone.",
     offsetof(struct server_status, train_steps)},
    {PREFIX "saved_step", "gauge", "The newest checkpoint's step. Server 0 alone.",
     offsetof(struct server_status, saved_step)},
    {PREFIX "parameters", "gauge", "Parameters of this shard.",
     offsetof(struct server_status, parameters)},
    {PREFIX "workers", "gauge", "Workers that are connected.",
     offsetof(struct server_status, worker_count)},
    {PREFIX "pushes_total", "counter", "Gradients that were taken.",
     offsetof(struct server_status, pushes)},
    {PREFIX "late_pushes_total", "counter",
     "Gradients of values older than --staleness, whose batches are computed again.",
     offsetof(struct server_status, late)},
    {PREFIX "repeated_pushes_total", "counter",
     "Gradients that came once more and changed nothing.",
     offsetof(struct server_status, repeated)},
};

static void print_families(struct buffer *body, const struct server_status *status)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        int64_t value;
        memcpy(&value, (const char *)status + families[i].offset, sizeof(value));
        if (value >= 0)
            metrics_add_value(body, families[i].name, families[i].type, families[i].help, "",
                              (uint64_t)value);
    }
    if (status->pause_ns < 0)
        return;
    metrics_add_head(body, PREFIX "cut_pause_seconds", "gauge",
                     "How long the latest checkpoint held the training up. Server 0 alone.");
    buffer_print(body, PREFIX "cut_pause_seconds %.6f\n", (double)status->pause_ns / 1e9);
}

static enum MHD_Result route_metrics(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(STATUS_PORT_BODY_BYTES);
    pthread_mutex_lock(&service->lock);
    print_families(&body, &service->status);
    pthread_mutex_unlock(&service->lock);
    return status_port_metrics(request, "tombola_ps", &body);
}

static const struct route routes[] = {
    STATUS_PORT_ROUTES(route_readyz, route_status, route_metrics)};

static const struct application application = {
    .routes = {routes, sizeof(routes) / sizeof(*routes)},
    .starting_detail = "the server is starting",
    .paths_detail = STATUS_PORT_PATHS,
};

/* ---- life cycle --------------------------------------------------------- */

enum error status_http_open(const struct guard_options *guard, struct status_http **ret_http)
{
    struct status_http *http = array_new(1, sizeof(*http), "a parameter server's HTTP");
    if (!http)
        return ERROR_MEMORY;
    pthread_mutex_init(&http->service.lock, NULL);
    http->service.status.phase = "waiting";
    enum error error = status_port_open(-1, guard, &application, &http->service, &http->port);
    if (error) {
        status_http_close(http);
        return error;
    }
    *ret_http = http;
    return OK;
}

void status_http_close(struct status_http *http)
{
    if (!http)
        return;
    status_port_close(http->port);
    pthread_mutex_destroy(&http->service.lock);
    free(http);
}

void status_http_add(struct status_http *http, int descriptor,
                     const struct sockaddr_storage *address, socklen_t length)
{
    status_port_add(http->port, descriptor, address, length);
}

struct server_status *status_http_begin(struct status_http *http)
{
    pthread_mutex_lock(&http->service.lock);
    return &http->service.status;
}

void status_http_publish(struct status_http *http)
{
    pthread_mutex_unlock(&http->service.lock);
}
