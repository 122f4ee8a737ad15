#include "sampler/server.h"

#include <microhttpd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "sampler/reply.h"
#include "sampler/request.h"
#include "sampler/routes.h"
#include "sampler/worker.h"

#define THREADS_LIMIT 16
#define DESCRIPTORS_RESERVED 64
/* A connection's memory: request line, header and answer's header. MHD clears it for each request,
 * so that more of it costs time. */
#define CONNECTION_BYTES (12 << 10)
#define HEADER_LIMIT_BYTES (8 << 10)
#define BODY_LIMIT_BYTES (1 << 20)
/* A body is read to its end, so that its sender hears the answer, unless it is longer than this. */
#define BODY_SWALLOW_BYTES (16 << 20)
#define DRAIN_POLL_MS 2
#define DRAIN_GRACE_MS 500

struct server {
    struct MHD_Daemon *daemon;
    struct worker_set workers;
    _Atomic(struct service *) service; /* borrowed */
    _Atomic int phase;
    int64_t started_seconds;
};

/* ---- one request ----------------------------------------------------------------------------- */

static bool header_is_over(struct request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && info->header_size > HEADER_LIMIT_BYTES;
}

static int64_t announced_bytes(struct request *request)
{
    const char *text = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t bytes;
    if (!text || !text_parse_integer(text, strlen(text), 0, INT64_MAX, &bytes))
        return 0; /* MHD judges it */
    return bytes;
}

static enum MHD_Result refuse_body(struct request *request)
{
    return reply_problem(request, MHD_HTTP_CONTENT_TOO_LARGE,
                         "the body is longer than 1048576 bytes");
}

/* The header is there, a body may follow. A response now would make MHD close the connection. */
static enum MHD_Result begin(struct request *request, const char *method)
{
    request->seen = true;
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0)
        return MHD_YES;
    int64_t bytes = announced_bytes(request);
    bool waits = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                             MHD_HTTP_HEADER_EXPECT) != NULL;
    if (bytes > BODY_SWALLOW_BYTES || (waits && bytes > BODY_LIMIT_BYTES))
        return refuse_body(request);
    return MHD_YES;
}

static enum MHD_Result swallow(struct request *request, size_t *upload_bytes)
{
    request->uploaded_bytes += *upload_bytes;
    *upload_bytes = 0;
    return request->uploaded_bytes > BODY_SWALLOW_BYTES ? MHD_NO : MHD_YES;
}

static enum MHD_Result refuse_method(struct request *request, const char *method)
{
    char detail[TEXT_QUOTE_BYTES + 64];
    char quoted[TEXT_QUOTE_BYTES];
    snprintf(detail, sizeof(detail), "method %s: this path answers " ROUTE_ALLOW,
             text_quote(quoted, sizeof(quoted), method, strlen(method)));
    return reply_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED, detail);
}

static enum MHD_Result refuse_path(struct request *request, const char *url)
{
    char detail[TEXT_QUOTE_BYTES + 64];
    char quoted[TEXT_QUOTE_BYTES];
    snprintf(detail, sizeof(detail), "there is no path %s; GET / says what there is",
             text_quote(quoted, sizeof(quoted), url, strlen(url)));
    return reply_problem(request, MHD_HTTP_NOT_FOUND, detail);
}

static enum MHD_Result refuse_phase(struct request *request, enum server_phase phase)
{
    return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                         phase == SERVER_STARTING
                             ? "the server is starting: its frame is not there yet"
                             : "the server is stopping");
}

static enum MHD_Result answer(struct server *server, struct request *request, const char *url,
                              const char *method)
{
    struct service *service = atomic_load(&server->service);
    enum server_phase phase = server_phase(server);
    if (request->too_long)
        return reply_problem(request, MHD_HTTP_URI_TOO_LONG,
                             "the request target is longer than 6000 bytes");
    if (header_is_over(request))
        return reply_problem(request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
                             "the request's header is longer than 8192 bytes");
    if (request->uploaded_bytes > BODY_LIMIT_BYTES)
        return refuse_body(request);
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    request->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (!request->route && strcmp(url, "*") != 0)
        return refuse_path(request, url);
    if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0)
        return reply_allow(request);
    if (!request->route || (!get && !request->head))
        return refuse_method(request, method);
    if (!request->route->always && (!service || phase == SERVER_CLOSED))
        return refuse_phase(request, phase);
    return request->route->get(request, service);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request_context)
{
    struct server *server = context;
    struct request *request = *request_context;
    (void)connection;
    (void)version;
    (void)upload;
    if (!request)
        return MHD_NO; /* there was no memory for it */
    if (!request->seen)
        return begin(request, method);
    if (*upload_bytes > 0)
        return swallow(request, upload_bytes);
    if (!request->active) {
        request->active = true;
        atomic_fetch_add(&request->worker->active, 1); /* before the phase is looked at */
    }
    return answer(server, request, url, method);
}

/* Called before MHD takes the target apart. Its own list of arguments is cut off: nobody reads it,
 * and MHD 0.9.75 never answers a request whose arguments overflow the connection's memory. The
 * bytes are MHD's, in a buffer that it writes into itself right afterwards. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    struct server *server = context;
    struct worker *worker = worker_current(&server->workers);
    struct request *request = worker ? request_take(worker, connection, target) : NULL;
    char *query = target ? strchr(target, '?') : NULL;
    if (query && query[1] != '\0')
        query[1] = '\0';
    return request;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    if (*request_context)
        request_put(*request_context);
    *request_context = NULL;
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

/* ---- life cycle ------------------------------------------------------------------------------ */

static unsigned int thread_count(void)
{
    cpu_set_t processors;
    int count = 2;
    if (sched_getaffinity(0, sizeof(processors), &processors) == 0)
        count = CPU_COUNT(&processors);
    if (count < 2)
        return 2; /* one thread formats a batch of a million while the other one answers */
    return count > THREADS_LIMIT ? THREADS_LIMIT : (unsigned int)count;
}

static unsigned int connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 512;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* the soft limit is what shells start us with */
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t room = limit.rlim_cur > 2 * DESCRIPTORS_RESERVED ? limit.rlim_cur - DESCRIPTORS_RESERVED
                                                            : DESCRIPTORS_RESERVED;
    return room < SERVER_CONNECTIONS_LIMIT ? (unsigned int)room : SERVER_CONNECTIONS_LIMIT;
}

static struct MHD_Daemon *start_daemon(struct server *server, int descriptor, bool suspends)
{
    unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO | MHD_USE_ITC |
                         MHD_USE_ERROR_LOG | (suspends ? MHD_ALLOW_SUSPEND_RESUME : 0);
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, server,                             //
                            MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,                         //
                            MHD_OPTION_LISTEN_SOCKET, descriptor,                             //
                            MHD_OPTION_THREAD_POOL_SIZE, thread_count(),                      //
                            MHD_OPTION_CONNECTION_LIMIT, connection_limit(),                  //
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SERVER_IDLE_SECONDS, //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,     //
                            MHD_OPTION_URI_LOG_CALLBACK, on_target, server,                   //
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,                //
                            MHD_OPTION_END);
}

enum error server_open(int descriptor, bool suspends, struct server **ret_server)
{
    struct server *server = array_new(1, sizeof(*server), "the server");
    if (!server) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    server->started_seconds = (int64_t)clock_wall_seconds();
    worker_set_init(&server->workers, server);
    server->daemon = start_daemon(server, descriptor, suspends);
    if (!server->daemon) {
        server_close(server);
        return error_set(ERROR_NETWORK, "cannot start the HTTP server (threads, descriptors or "
                                        "memory are short; --log_level debug says more)");
    }
    *ret_server = server;
    return OK;
}

static void go_to(struct server *server, enum server_phase phase)
{
    if (phase > server_phase(server))
        atomic_store(&server->phase, (int)phase);
}

void server_set_service(struct server *server, struct service *service)
{
    atomic_store(&server->service, service);
    go_to(server, SERVER_READY);
}

static bool wait_until_idle(struct server *server, int64_t deadline_ns)
{
    while (worker_set_active(&server->workers) > 0) {
        if (clock_left_ms(deadline_ns) == 0)
            return false;
        clock_sleep_ms(DRAIN_POLL_MS);
    }
    return true;
}

/* MHD_quiesce_daemon() would end the process now and then: with epoll, it and MHD's own thread both
 * take the listening socket out of the epoll set, and the later one panics (0.9.75). */
bool server_drain(struct server *server, int64_t deadline_ns)
{
    int64_t grace_ns = clock_deadline_ns(DRAIN_GRACE_MS);
    go_to(server, SERVER_DRAINING);
    (void)wait_until_idle(server, grace_ns < deadline_ns ? grace_ns : deadline_ns);
    /* A request that came after that look may have drawn; one that comes after this will not. */
    go_to(server, SERVER_CLOSED);
    return wait_until_idle(server, deadline_ns);
}

void server_close(struct server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    worker_set_release(&server->workers);
    free(server);
}

enum server_phase server_phase(const struct server *server)
{
    return (enum server_phase)atomic_load(&server->phase);
}

int64_t server_started_seconds(const struct server *server)
{
    return server->started_seconds;
}

void server_metrics(struct server *server, struct metrics *ret_sum)
{
    worker_set_metrics(&server->workers, ret_sum);
}
