/* SPDX-License-Identifier: MIT */
#include "trainer/run/training_status.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/http/listener.h"
#include "common/http/metrics.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/log.h"
#include "trainer/server/status_port.h"

#define PREFIX "tombola_worker_"

/* The values that the routes report. */
struct service {
    const struct training_options *options;
    struct report *report;
    pthread_mutex_t lock;
    int64_t waited_ns; /* the highest value reported: a counter never falls */
};

struct training_status {
    struct service service;
    struct status_port *port;
};

static void read_figures(struct service *service, struct report_figures *ret_figures)
{
    pthread_mutex_lock(&service->lock);
    report_get_figures(service->report, ret_figures);
    if (ret_figures->waited_ns < service->waited_ns)
        ret_figures->waited_ns = service->waited_ns;
    service->waited_ns = ret_figures->waited_ns;
    pthread_mutex_unlock(&service->lock);
}

/* ---- answers ------------------------------------------------------------ */

static enum MHD_Result route_readyz(struct request *request, struct service *service)
{
    struct report_figures figures;
    read_figures(service, &figures);
    if (figures.step >= 0)
        return status_port_ok(request);
    return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "training has not begun: opening stores, or waiting for parameter "
                            "servers or the sampler");
}

static void print_status(struct buffer *body, const struct training_options *options,
                         const struct report_figures *figures)
{
    const struct cluster *cluster = options->cluster;
    buffer_print(body, "{\"role\":\"%s\",\"index\":%" PRId64 ",\"phase\":\"%s\",",
                 cluster->is_alone ? "worker" : cluster_role_name(cluster, cluster->role),
                 cluster->index, figures->step < 0 ? "starting" : "training");
    if (figures->step >= 0)
        buffer_print(body, "\"global_step\":%" PRId64 ",", figures->step);
    if (!isnan(figures->loss) && !isinf(figures->loss))
        buffer_print(body, "\"loss\":%.9g,", figures->loss);
    buffer_print(body,
                 "\"train_steps\":%" PRId64 ",\"steps\":%" PRId64 ",\"rows\":%" PRId64
                 ",\"waited_seconds\":%.6f,\"waiting_seconds\":%.6f,\"paused_seconds\":%.6f}\n",
                 options->train_steps, figures->steps, figures->rows,
                 (double)figures->waited_ns / 1e9, (double)figures->waiting_ns / 1e9,
                 (double)figures->paused_ns / 1e9);
}

static enum MHD_Result route_status(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(STATUS_PORT_BODY_BYTES);
    struct report_figures figures;
    read_figures(service, &figures);
    print_status(&body, service->options, &figures);
    return response_json(request, body.error, MHD_HTTP_OK, &body, NULL);
}

/* ---- figures ------------------------------------------------------------ */

static void add_seconds(struct buffer *body, const char *name, const char *help, int64_t ns)
{
    metrics_add_head(body, name, "counter", help);
    buffer_print(body, "%s %.6f\n", name, (double)ns / 1e9);
}

static void print_figures(struct buffer *body, const struct training_options *options,
                          const struct report_figures *figures)
{
    metrics_add_value(body, PREFIX "train_steps", "gauge", "Where training ends.", "",
                      (uint64_t)options->train_steps);
    if (figures->step >= 0)
        metrics_add_value(body, PREFIX "global_step", "gauge",
                          "The step of the values that this process has.", "",
                          (uint64_t)figures->step);
    metrics_add_value(body, PREFIX "steps_total", "counter", "Steps that this process made.", "",
                      (uint64_t)figures->steps);
    metrics_add_value(body, PREFIX "rows_total", "counter", "Rows that it trained on.", "",
                      (uint64_t)figures->rows);
    add_seconds(body, PREFIX "waited_seconds_total",
                "Time in which it waited for a batch's rows, the wait of now included.",
                figures->waited_ns);
    add_seconds(body, PREFIX "paused_seconds_total", "Time that tests and checkpoints took.",
                figures->paused_ns);
    if (isnan(figures->loss))
        return;
    metrics_add_head(body, PREFIX "loss", "gauge", "Of the latest batch that was judged.");
    buffer_print(body, PREFIX "loss %.9g\n", figures->loss);
}

static enum MHD_Result route_metrics(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(STATUS_PORT_BODY_BYTES);
    struct report_figures figures;
    read_figures(service, &figures);
    print_figures(&body, service->options, &figures);
    return status_port_metrics(request, "tombola_worker", &body);
}

static const struct route routes[] = {
    STATUS_PORT_ROUTES(route_readyz, route_status, route_metrics)};

static const struct application application = {
    .routes = {routes, sizeof(routes) / sizeof(*routes)},
    .starting_detail = "the training is starting",
    .paths_detail = STATUS_PORT_PATHS,
};

/* ---- life cycle --------------------------------------------------------- */

/* SIGHUP reaches only one of two token readers, and GnuTLS knows one certificate per process. */
static enum error check_guard(const struct training_options *options)
{
    const struct guard_options *guard = &options->guard;
    if (!cluster_runs_server(options->cluster) || (!guard->token_file && !guard->tls_cert))
        return OK;
    return error_set(ERROR_USAGE, "--status-listen: with --token-file or --tls-cert only the "
                                  "port of the server that this chief runs has a status; leave "
                                  "--status-listen out, or give the cluster a ps");
}

static enum error listen_there(const struct training_options *options,
                               struct training_status *status)
{
    int descriptor;
    char url[LISTENER_URL_BYTES];
    enum error error = listener_bind("status-listen", options->status_host, options->status_port,
                                     &descriptor, url);
    if (!error)
        error = status_port_open(descriptor, &options->guard, &application, &status->service,
                                 &status->port);
    if (!error)
        log_info("status on http%s%s", options->guard.tls_cert ? "s" : "", url + strlen("http"));
    return error;
}

enum error training_status_open(const struct training_options *options, struct report *report,
                                struct training_status **ret_status)
{
    *ret_status = NULL;
    if (!options->status_host)
        return OK;
    enum error error = check_guard(options);
    struct training_status *status = error ? NULL : array_new(1, sizeof(*status), "a status");
    if (!status)
        return error ? error : ERROR_MEMORY;
    status->service.options = options;
    status->service.report = report;
    pthread_mutex_init(&status->service.lock, NULL);
    error = listen_there(options, status);
    if (error) {
        training_status_close(status);
        return error;
    }
    *ret_status = status;
    return OK;
}

void training_status_close(struct training_status *status)
{
    if (!status)
        return;
    status_port_close(status->port);
    pthread_mutex_destroy(&status->service.lock);
    free(status);
}
