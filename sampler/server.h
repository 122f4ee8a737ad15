/*
 * The HTTP server's life: libmicrohttpd with epoll and a thread for each processor.
 *
 *   SERVER_STARTING   /healthz, /readyz and /metrics answer; everything else is 503
 *   SERVER_READY      all answers
 *   SERVER_DRAINING   what is asked is answered with Connection: close, for a moment
 *   SERVER_CLOSED     nothing is drawn any more (503); the connections are closed
 *
 * Phases only go forward, through one function. Limits: SERVER_CONNECTIONS_LIMIT connections (more
 * wait to be accepted), each closed after SERVER_IDLE_SECONDS without a byte.
 */
#ifndef SAMPLER_SERVER_H
#define SAMPLER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/metrics.h"
#include "sampler/service.h"

enum server_phase { SERVER_STARTING, SERVER_READY, SERVER_DRAINING, SERVER_CLOSED };

#define SERVER_CONNECTIONS_LIMIT 4096
#define SERVER_IDLE_SECONDS 120

struct server;

/* Listens on `descriptor` (a listening socket; taken also on failure) and answers from now on.
 * `suspends`: draws may wait for the disk. */
enum error server_open(int descriptor, bool suspends, struct server **ret_server) MUST_CHECK;
/* The service (borrowed until server_close()) is there: SERVER_READY. */
void server_set_service(struct server *server, struct service *service);
/* Stops accepting, waits until every request that was read is answered (at most until the
 * deadline; false: some were not), then draws nothing more. */
bool server_drain(struct server *server, int64_t deadline_ns);
/* Ends all threads. Nobody may wait for the disk any more (service_finish()). NULL is legal. */
void server_close(struct server *server);

/* From every thread. */
enum server_phase server_phase(const struct server *server);
int64_t server_started_seconds(const struct server *server); /* since 1970 */
void server_metrics(struct server *server, struct metrics *ret_sum);

#endif
