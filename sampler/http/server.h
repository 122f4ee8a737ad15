/*
 * The HTTP server's life: libmicrohttpd with epoll and a thread for each processor.
 *
 *   SERVER_STARTING   /healthz, /readyz and /metrics answer; everything else is 503
 *   SERVER_READY      all answers
 *   SERVER_DRAINING   what is asked is answered with Connection: close, for a moment
 *   SERVER_CLOSED     nothing is drawn any more (503); the connections are closed
 *
 * Phases only go forward, through one function. Connections beyond the limit are answered with 503,
 * far beyond it they wait to be accepted; slow ones are closed (connection.h), resting ones after
 * SERVER_IDLE_SECONDS.
 */
#ifndef SAMPLER_HTTP_SERVER_H
#define SAMPLER_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/thread_pool.h"
#include "sampler/http/guard.h"
#include "sampler/http/response_memory.h"
#include "sampler/service/service.h"
#include "sampler/stream/metrics.h"

enum server_phase { SERVER_STARTING, SERVER_READY, SERVER_DRAINING, SERVER_CLOSED };

#define SERVER_CONNECTIONS_DEFAULT 4096
#define SERVER_CONNECTIONS_MOST 100000
#define SERVER_PATIENCE_DEFAULT_SECONDS 30
#define SERVER_IDLE_SECONDS 120
/* A connection's memory: request line, header and answer's header. MHD clears it for each request,
 * so that more of it costs time. */
#define SERVER_CONNECTION_BYTES (12 << 10)

struct server_options {
    int64_t connections;      /* the limit; the descriptors there are may lower it */
    int64_t patience_seconds; /* for a request's header, for its body, for its answer to be read */
    int64_t answer_bytes;     /* of large answers together (response_memory.h) */
    struct guard *guard;      /* borrowed */
};

struct server;

/* Listens on `descriptor` (a listening socket; taken also on failure) and answers from now on. */
enum error server_open(int descriptor, const struct server_options *options,
                       struct server **ret_server) MUST_CHECK;
/* The service (borrowed until server_close()) is there: SERVER_READY. */
void server_set_service(struct server *server, struct service *service);
/* Answers on for `grace_ms`, with /readyz 503 and `Connection: close`, so that who sends requests
 * here hears of it; then draws nothing more, and waits until every request that was read is
 * answered (at most until the deadline; false: some were not). */
bool server_drain(struct server *server, int64_t grace_ms, int64_t deadline_ns);
/* Ends all threads. Nobody may wait for the disk any more (service_finish()). NULL is legal. */
void server_close(struct server *server);

/* From every thread. */
enum server_phase server_phase(const struct server *server);
int64_t server_started_seconds(const struct server *server); /* since 1970 */
struct guard *server_guard(const struct server *server);
/* NULL: it is not there yet. */
struct service *server_service(const struct server *server);
void server_metrics(struct server *server, struct metrics *ret_sum);
int64_t server_connections(struct server *server);
struct thread_pool *server_slow_pool(struct server *server);
/* For what may take many seconds: nothing else waits for it. */
struct thread_pool *server_search_pool(struct server *server);
const struct response_memory *server_response_memory(const struct server *server);

#endif
