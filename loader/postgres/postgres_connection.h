/* SPDX-License-Identifier: MIT */
/*
 * A connection to a PostgreSQL server (libpq) on which every wait has a deadline and ends when the
 * program should stop. Belongs to one thread.
 */
#ifndef LOADER_POSTGRES_POSTGRES_CONNECTION_H
#define LOADER_POSTGRES_POSTGRES_CONNECTION_H

#include <stdbool.h>

#include "common/error.h"
#include "loader/postgres/postgres_place.h"

/* libpq's PGconn and PGresult; only .c files include its header, so this one needs no libpq. */
struct pg_conn;
struct pg_result;

/* The text format of values: the same for all programs, wherever they run and whoever they log in
 * as, since the labels that a frame has must be those of the loaders. Set on connecting, and again
 * in each transaction, which a pooler may run in another session. */
#define POSTGRES_SETTINGS(scope)                                                        \
    "SET " scope " extra_float_digits = 1; SET " scope " datestyle = 'ISO'; SET " scope \
    " TimeZone = 'UTC'"
/* In transactions that may take long, as pg_dump does; locks are still awaited for lock_timeout. */
#define POSTGRES_NO_TIMEOUTS \
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
#define POSTGRES_ANSWER_MS 60000    /* gives up on a server that is silent for this long */
#define POSTGRES_RECONNECT_MS 13000 /* long enough for a server to restart */

/* Tries the hosts one by one, each of their addresses for place->connect_ms. ERROR_NETWORK with the
 * message of each of them; ERROR_CANCELLED. Text is UTF-8. */
enum error postgres_connect(const struct postgres_place *place,
                            struct pg_conn **ret_connection) MUST_CHECK;
/* The same repeatedly, with growing pauses, for POSTGRES_RECONNECT_MS. */
enum error postgres_reconnect(const struct postgres_place *place,
                              struct pg_conn **ret_connection) MUST_CHECK;

/* Waits for the response to the last query and returns its last result, which the caller clears
 * (NULL on error). Its ExecStatusType must be `wanted`, otherwise the server's message is the
 * error: ERROR_NETWORK if the connection is gone (postgres_is_gone()), or a standby broke the query
 * off to recover; ERROR_TIMEOUT if a timeout of the server's or role's did, and from
 * POSTGRES_ANSWER_MS on; ERROR_CONFLICT if the session's prepared statements are not this client's
 * (a pooler shares it); else ERROR_INPUT. */
enum error postgres_answer(const struct postgres_place *place, struct pg_conn *connection,
                           int wanted, struct pg_result **ret_result) MUST_CHECK;
/* A command without parameters. `ret_result` may be NULL. Waits as postgres_await_work(). */
enum error postgres_run(const struct postgres_place *place, struct pg_conn *connection,
                        const char *sql, int wanted, struct pg_result **ret_result) MUST_CHECK;
/* Identifies the database independently of how URIs spell its location: free() it. NULL: the
 * server, which perhaps only speaks PostgreSQL's protocol, does not say. */
enum error postgres_identify(const struct postgres_place *place, struct pg_conn *connection,
                             char **ret_identity) MUST_CHECK;
/* Sends rows of a COPY FROM STDIN, after postgres_run() with PGRES_COPY_IN. Returns when they are
 * sent: no more than these are kept in memory. */
enum error postgres_copy_in(const struct postgres_place *place, struct pg_conn *connection,
                            const char *bytes, size_t length) MUST_CHECK;
/* Ends the rows; *ret_rows: how many the server accepted. */
enum error postgres_copy_end(const struct postgres_place *place, struct pg_conn *connection,
                             int64_t *ret_rows) MUST_CHECK;
/* The cluster's number, which its standbys share and no other has: free() it. NULL: not known. */
enum error postgres_cluster(const struct postgres_place *place, struct pg_conn *connection,
                            char **ret_cluster) MUST_CHECK;
/* ERROR_INPUT if this server is of another cluster than `cluster` (NULL: not known). */
enum error postgres_check_cluster(const struct postgres_place *place, struct pg_conn *connection,
                                  const char *cluster) MUST_CHECK;
bool postgres_is_gone(const struct pg_conn *connection);

/* Waits until the server has sent something to read. */
enum error postgres_await_input(const struct postgres_place *place,
                                struct pg_conn *connection) MUST_CHECK;
/* The same for as long as the server says, each POSTGRES_ANSWER_MS and to another connection, that
 * it works on what it was asked, and waits neither for a lock nor for us: sorting a large table
 * takes a while. */
enum error postgres_await_work(const struct postgres_place *place,
                               struct pg_conn *connection) MUST_CHECK;

#endif
