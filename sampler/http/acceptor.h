/*
 * Accepts connections in a thread of its own and deals them out to the HTTP threads in turn. Left
 * to themselves each of them would accept what it can get, and 16 connections may all end with one.
 *
 * At the limit nothing is accepted: connections wait in the socket's queue.
 */
#ifndef SAMPLER_HTTP_ACCEPTOR_H
#define SAMPLER_HTTP_ACCEPTOR_H

#include "common/error.h"
#include "sampler/http/connection.h"
#include "sampler/http/http_thread.h"

struct acceptor;

/* `descriptor`: a listening socket; taken, also on failure. The threads (whose daemons must tell
 * `connections` of each that begins and ends) outlive the acceptor. */
enum error acceptor_new(int descriptor, struct http_threads *threads,
                        struct connections *connections, struct acceptor **ret_acceptor) MUST_CHECK;
/* Stops to accept and closes the socket. NULL is legal. */
void acceptor_free(struct acceptor *acceptor);

#endif
