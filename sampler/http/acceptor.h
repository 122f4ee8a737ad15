/*
 * Accepts connections in a thread of its own and hands them to libmicrohttpd, which deals them out
 * to its threads by the descriptor's number: as good as in turn. Left to itself each of its threads
 * accepts what it can get, and 16 connections may all end with one of them.
 *
 * At the limit nothing is accepted: connections wait in the socket's queue.
 */
#ifndef SAMPLER_HTTP_ACCEPTOR_H
#define SAMPLER_HTTP_ACCEPTOR_H

#include <microhttpd.h>

#include "common/error.h"
#include "sampler/http/connection.h"

struct acceptor;

/* `descriptor`: a listening socket; taken, also on failure. The daemon (which must tell
 * `connections` of each that it begins and ends) outlives the acceptor. */
enum error acceptor_new(int descriptor, struct MHD_Daemon *daemon, struct connections *connections,
                        struct acceptor **ret_acceptor) MUST_CHECK;
/* Stops to accept and closes the socket. NULL is legal. */
void acceptor_free(struct acceptor *acceptor);

#endif
