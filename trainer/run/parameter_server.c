/* SPDX-License-Identifier: MIT */
#include "trainer/run/parameter_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/http/housekeeper.h"
#include "common/listen_socket.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/thread.h"
#include "trainer/server/server.h"

struct parameter_server {
    struct server_options options;
    pthread_t thread;
    _Atomic bool failed; /* the training beside it has */
    _Atomic bool lost;   /* it has failed itself */
    struct error_report report;
};

/* A server that is listed with a loopback address is reachable from this machine only; all others
 * listen on every address, because the listed one may be that of a service in front of them. */
static enum error listen_as(const struct cluster_task *task, int *ret_descriptor)
{
    static const char advice[] = "; choose another in every process' list";
    if (listen_socket_is_loopback(task->host))
        return listen_socket_open(task->host, task->port, advice, ret_descriptor);
    return listen_socket_open_any(task->port, advice, ret_descriptor);
}

/* A sparse list may show a parameter server only itself: then it knows neither how many there are
 * nor the address of server 0, to which it must connect. */
static enum error check_list(const struct cluster *cluster, size_t index)
{
    size_t listed = cluster_server_count(cluster);
    if (cluster->servers_known ||
        (index < listed && cluster_server(cluster, index)->index == (int64_t)index))
        return OK;
    return error_set(ERROR_USAGE,
                     "ps %zu sees %zu of the parameter servers in %s; each needs the whole list: a "
                     "TFJob has several only without enableDynamicWorker",
                     index, listed, cluster->source);
}

static enum error prepare(const struct training_options *options, size_t index,
                          struct server_options *ret_server)
{
    const struct cluster *cluster = options->cluster;
    enum error error = check_list(cluster, index);
    if (error)
        return error;
    const struct cluster_task *own = cluster_server(cluster, index);
    const struct cluster_task *zero = cluster_server(cluster, 0);
    char address[CLUSTER_ADDRESS_BYTES];
    /* A chief's own worker asks the sampler. */
    const char *url = cluster->role == CLUSTER_PS ? options->sampler_url : NULL;
    if (options->guard.token_file || options->guard.tls_cert)
        housekeeper_block_signals();
    *ret_server = (struct server_options){.index = index,
                                          .zero_host = zero->host,
                                          .zero_port = zero->port,
                                          .staleness = options->staleness,
                                          .bad_rows = options->bad_rows,
                                          .guard = options->guard,
                                          .engine = options->engine,
                                          .coordinator = {.servers = cluster_server_count(cluster),
                                                          .round_robin = options->round_robin,
                                                          .aggregate = options->aggregate,
                                                          .is_grouped = options->is_grouped,
                                                          .sampler_url = url,
                                                          .stream = options->stream,
                                                          .logdir = options->logdir,
                                                          .init_from = options->init_from,
                                                          .model = &options->model,
                                                          .train_steps = options->train_steps,
                                                          .may_stop = options->early_stopping > 0,
                                                          .save_ms = options->save_ms,
                                                          .patience_ms = options->patience_ms}};
    error = listen_as(own, &ret_server->descriptor);
    if (!error)
        log_info("parameter server %zu of %zu listens on %s", index, cluster_server_count(cluster),
                 cluster_task_address(own, address));
    return error;
}

enum error parameter_server_run(const struct training_options *options)
{
    struct server_options server;
    enum error error = prepare(options, (size_t)options->cluster->index, &server);
    if (!error)
        error = server_run(&server);
    if (!error)
        log_info("the training is over");
    return error;
}

static void *run(void *context)
{
    struct parameter_server *server = context;
    stop_follow(&server->failed);
    enum error error = server_run(&server->options);
    error_report_take(error, &server->report);
    atomic_store(&server->lost, error != OK);
    return NULL;
}

enum error parameter_server_start(const struct training_options *options,
                                  struct parameter_server **ret_server)
{
    struct parameter_server *server = array_new(1, sizeof(*server), "a parameter server");
    if (!server)
        return ERROR_MEMORY;
    enum error error = prepare(options, 0, &server->options);
    if (!error)
        error = thread_start("server", run, server, &server->thread);
    if (error) {
        free(server);
        return error;
    }
    stop_follow(&server->lost); /* nobody else would answer this process */
    *ret_server = server;
    return OK;
}

enum error parameter_server_join(struct parameter_server *server, bool failed)
{
    if (!server)
        return OK;
    if (failed)
        atomic_store(&server->failed, true);
    pthread_join(server->thread, NULL);
    stop_follow(NULL);
    enum error error = error_restore(&server->report);
    free(server);
    return error;
}
