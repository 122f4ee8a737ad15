/* SPDX-License-Identifier: MIT */
#include "common/http/server.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/http/connection.h"
#include "common/http/dispatch.h"
#include "common/http/framing.h"
#include "common/http/housekeeper.h"
#include "common/http/http_thread.h"
#include "common/http/listener.h"
#include "common/http/request.h"
#include "common/log.h"
#include "common/machine.h"

#define THREADS_LIMIT 16
#define DESCRIPTORS_RESERVED 128
#define CONNECTIONS_LEAST 16
#define RAISE_FILES \
    "raise it (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of a container)"
/* Without RSA's key exchange, which has no forward secrecy, and SHA-1. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-SHA1"
#define DRAIN_POLL_MS 2

_Static_assert(GUARD_KEPT_SECONDS > SERVER_PATIENCE_MOST_SECONDS,
               "a handshake may take as long as a header, and uses its certificate until then");

/* ---- what libmicrohttpd calls ------------------------------------------- */

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request_context)
{
    struct request *request = *request_context;
    (void)context;
    (void)connection;
    (void)url;
    if (!request || request->answered)
        return MHD_NO; /* there was no memory for it, or response_at_once() was all */
    if (!request->seen)
        return framing_begin(request, method, version);
    if (*upload_bytes > 0) {
        event_loop_note_piece(&request->thread->loop);
        return framing_take(request, upload, upload_bytes);
    }
    if (!request->active) {
        request->active = true;
        atomic_fetch_add(&request->thread->active, 1); /* before the phase is read */
        connection_enter(request->peer, CONNECTION_WORKING, 0);
    }
    return dispatch(request);
}

static struct connection *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* A connection's handshake is over with its first request line, or its end. */
static void begin_handshake(struct http_thread *thread, struct connection *peer)
{
    if (!peer || !guard_uses_tls(thread->server->guard))
        return;
    peer->shakes = true;
    event_loop_note_handshake(&thread->loop);
}

static void end_handshake(struct http_thread *thread, struct connection *peer)
{
    if (!peer || !peer->shakes)
        return;
    peer->shakes = false;
    event_loop_note_handshake_end(&thread->loop);
}

static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    struct http_thread *thread = context;
    struct connection *peer = peer_of(connection);
    struct request *request = request_take(thread, connection, target);
    event_loop_note(&thread->loop);
    end_handshake(thread, peer);
    connection_enter(peer, CONNECTION_HEADER, 0);
    if (!request)
        return NULL;
    request->peer = peer;
    if (peer)
        peer->request = request;
    framing_look_at_target(request);
    return request;
}

/* libmicrohttpd answered by itself. */
static void count_library_error(struct request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (info)
        metrics_count(&request->thread->metrics, METRICS_OTHER, (int)info->http_status, 0, 0);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *request_context;
    (void)context;
    (void)connection;
    (void)code;
    if (request && !request->answered)
        count_library_error(request);
    if (request)
        request_put(request);
    *request_context = NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_thread *thread = context;
    struct server *server = thread->server;
    struct connection *peer = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        end_handshake(thread, peer);
        if (peer && peer->request)
            request_put(peer->request); /* MHD had no memory for its header: it completes none */
        connections_remove(&server->connections, peer);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    int descriptor = info->connect_fd; /* libmicrohttpd 1.0 uses the same union for every answer */
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    peer = connections_add(&server->connections, descriptor, info ? info->client_addr : NULL);
    begin_handshake(thread, peer);
    *socket_context = peer;
}

static void on_log(void *context, const char *format, va_list args) PRINTF_LIKE(2, 0);
static void on_log(void *context, const char *format, va_list args)
{
    char line[ERROR_MESSAGE_BYTES];
    (void)context;
    vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http: %s", line);
}

/* ---- life cycle --------------------------------------------------------- */

static unsigned int thread_count(void)
{
    struct machine machine;
    machine_look(&machine);
    if (machine.processors < 2)
        return 2; /* one thread may make a large response while the other one answers */
    return machine.processors > THREADS_LIMIT ? THREADS_LIMIT : machine.processors;
}

/* The requested number of connections, or as many as the descriptor limit allows.
 * ERROR_UNAVAILABLE: it allows too few for a server that listens. */
static enum error limit_connections(int64_t wanted, bool listens, int64_t *ret_connections)
{
    uint64_t files = machine_raise_files();
    uint64_t reserved = DESCRIPTORS_RESERVED + CONNECTIONS_SURPLUS;
    uint64_t least = wanted < CONNECTIONS_LEAST ? (uint64_t)wanted : CONNECTIONS_LEAST;
    uint64_t room = files > reserved ? files - reserved : 0;
    if (files == 0) /* unknown */
        room = 512;
    if (listens && room < least)
        return error_set(ERROR_UNAVAILABLE,
                         "the limit of open files is %" PRIu64
                         ", and the server needs at least %" PRIu64 ": " RAISE_FILES,
                         files, reserved + least);
    if (room == 0)
        room = 1;
    if (room < (uint64_t)wanted)
        log_warning("the limit of open files (%" PRIu64 ") allows %" PRIu64
                    " connections, not %" PRId64 "; " RAISE_FILES,
                    files, room, wanted);
    *ret_connections = room < (uint64_t)wanted ? (int64_t)room : wanted;
    return OK;
}

/* Any thread may get all connections: the listener limits their number. */
static struct MHD_Daemon *start_daemon(struct http_thread *thread, int64_t connections)
{
    bool tls = guard_uses_tls(thread->server->guard);
    struct MHD_OptionItem tls_options[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)guard_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem strict[] = {
#if MHD_VERSION >= 0x01000000 /* else an LF alone ends a line, and a tab a target */
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#endif
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned int flags = EVENT_LOOP_DAEMON_FLAGS | MHD_USE_ERROR_LOG |
                         (tls ? (unsigned)MHD_USE_TLS : (unsigned)EVENT_LOOP_PLAIN_FLAGS);
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, NULL,                                  //
                            MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,                            //
                            MHD_OPTION_CONNECTION_LIMIT,                                         //
                            (unsigned int)(connections + CONNECTIONS_SURPLUS),                   //
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SERVER_IDLE_SECONDS,    //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_CONNECTION_BYTES, //
                            MHD_OPTION_URI_LOG_CALLBACK, on_target, thread,                      //
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,                     //
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, thread,                 //
                            MHD_OPTION_ARRAY, tls ? tls_options : tls_options + 2,               //
                            MHD_OPTION_ARRAY, strict,                                            //
                            MHD_OPTION_END);
}

static void on_lost(void *context)
{
    connections_expect_less(context);
}

static enum error start_thread(struct server *server, int64_t connections)
{
    struct http_thread *thread =
        http_thread_new(&server->threads, server->application->thread_bytes);
    if (!thread)
        return ERROR_MEMORY;
    struct MHD_Daemon *daemon = start_daemon(thread, connections);
    if (!daemon)
        return error_set(ERROR_NETWORK, "cannot start the HTTP server (descriptors or memory are "
                                        "short; --log-level debug says more)");
    return event_loop_start(&thread->loop, daemon, on_lost, &server->connections);
}

static enum error start(struct server *server, int descriptor, unsigned threads,
                        int64_t connections)
{
    enum error error = thread_pool_new(&server->slow_pool);
    if (!error)
        error = thread_pool_new(&server->search_pool);
    if (!error)
        error = housekeeper_new(server->guard, &server->connections, server->application->tick,
                                &server->housekeeper);
    for (; !error && threads > 0; threads--)
        error = start_thread(server, connections);
    if (descriptor < 0)
        return error;
    if (!error)
        return listener_start(descriptor, &server->threads, &server->connections,
                              &server->listener);
    close(descriptor);
    return error;
}

enum error server_open(int descriptor, const struct server_options *options,
                       struct server **ret_server)
{
    int64_t connections = 0;
    enum error error = limit_connections(options->connections, descriptor >= 0, &connections);
    struct server *server = error ? NULL : array_new(1, sizeof(*server), "the server");
    if (!server) {
        if (descriptor >= 0)
            close(descriptor);
        return error ? error : ERROR_MEMORY;
    }
    server->application = options->application;
    server->guard = options->guard;
    server->started_seconds = (int64_t)clock_wall_seconds();
    http_threads_init(&server->threads, server, options->response_bytes, options->body_bytes);
    connections_init(&server->connections, connections, options->address_connections,
                     options->patience_seconds * 1000, guard_uses_tls(options->guard));
    unsigned threads = options->threads ? options->threads : thread_count();
    error = start(server, descriptor, threads, connections);
    if (error) {
        server_close(server);
        return error;
    }
    *ret_server = server;
    return OK;
}

void server_add_connection(struct server *server, int descriptor,
                           const struct sockaddr_storage *address, socklen_t address_bytes)
{
    if (!connections_have_room(&server->connections)) {
        close(descriptor);
        return;
    }
    connections_expect(&server->connections);
    event_loop_add(&server->threads.first->loop, descriptor, address, address_bytes);
}

void server_set_service(struct server *server, struct service *service)
{
    atomic_store(&server->service, service);
    server_enter(server, SERVER_READY);
}

static bool wait_until_idle(struct server *server, int64_t deadline_ns)
{
    while (http_threads_active(&server->threads) > 0) {
        if (clock_left_ms(deadline_ns) == 0)
            return false;
        clock_sleep_ms(DRAIN_POLL_MS);
    }
    return true;
}

bool server_drain(struct server *server, int64_t deadline_ns)
{
    server_enter(server, SERVER_CLOSED);
    thread_pool_stop(server->slow_pool);
    thread_pool_stop(server->search_pool);
    return wait_until_idle(server, deadline_ns);
}

void server_close(struct server *server)
{
    if (!server)
        return;
    listener_stop(server->listener);
    housekeeper_free(server->housekeeper);
    thread_pool_free(server->slow_pool); /* its jobs resume connections */
    thread_pool_free(server->search_pool);
    http_threads_stop(&server->threads);
    connections_release(&server->connections);
    http_threads_release(&server->threads, server->application->thread_release);
    free(server);
}
