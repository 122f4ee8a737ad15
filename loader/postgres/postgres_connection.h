/* SPDX-License-Identifier: MIT */
/*
 * A connection to a PostgreSQL server (libpq), on which every wait has a deadline and ends when the
 * program is to stop. Belongs to one thread.
 */
#ifndef LOADER_POSTGRES_POSTGRES_CONNECTION_H
#define LOADER_POSTGRES_POSTGRES_CONNECTION_H

#include <stdbool.h>

#include "common/error.h"
#include "loader/postgres/postgres_place.h"

/* libpq's PGconn and PGresult: its header is for the .c files, so that this one needs no libpq. */
struct pg_conn;
struct pg_result;

/* How values are written as texts. Said when connected, and again in each transaction: behind a
 * pooler it may be of another session. */
#define POSTGRES_SETTINGS(scope) \
    "SET " scope " extra_float_digits = 1; SET " scope " datestyle = 'ISO'"
#define POSTGRES_ANSWER_MS 60000    /* a server that says nothing for so long is given up */
#define POSTGRES_RECONNECT_MS 13000 /* a server that restarts is back by then */

/* The hosts one by one, each address of theirs for place->connect_ms, until one is taken.
 * ERROR_NETWORK with what each of them said; ERROR_CANCELLED. Text is UTF-8. */
enum error postgres_connect(const struct postgres_place *place,
                            struct pg_conn **ret_connection) MUST_CHECK;
/* The same again and again, with growing pauses, for POSTGRES_RECONNECT_MS. */
enum error postgres_reconnect(const struct postgres_place *place,
                              struct pg_conn **ret_connection) MUST_CHECK;

/* Waits for the answer to the last query; the last result, which the caller clears (NULL with an
 * error). `wanted` is the ExecStatusType that it must have, else the server's words are the error:
 * ERROR_NETWORK where the connection is gone (postgres_is_gone()), ERROR_CONFLICT where the
 * session's prepared statements are not those that this client made (a pooler shares it), else
 * ERROR_INPUT. */
enum error postgres_answer(const struct postgres_place *place, struct pg_conn *connection,
                           int wanted, struct pg_result **ret_result) MUST_CHECK;
/* A command without parameters. `ret_result` may be NULL. */
enum error postgres_run(const struct postgres_place *place, struct pg_conn *connection,
                        const char *sql, int wanted, struct pg_result **ret_result) MUST_CHECK;
/* What tells the database from all others, however URIs spell where it is: free() it. NULL: the
 * server, which speaks PostgreSQL's protocol alone perhaps, does not say. */
enum error postgres_identify(const struct postgres_place *place, struct pg_conn *connection,
                             char **ret_identity) MUST_CHECK;
/* Rows of a COPY FROM STDIN, after postgres_run() with PGRES_COPY_IN. Returns when they are on
 * their way: no more than them is kept in memory. */
enum error postgres_copy_in(const struct postgres_place *place, struct pg_conn *connection,
                            const char *bytes, size_t length) MUST_CHECK;
/* The end of them; *ret_rows: how many the server took. */
enum error postgres_copy_end(const struct postgres_place *place, struct pg_conn *connection,
                             int64_t *ret_rows) MUST_CHECK;
bool postgres_is_gone(const struct pg_conn *connection);

/* Waits until there is something to read from the server. */
enum error postgres_await_input(const struct postgres_place *place,
                                struct pg_conn *connection) MUST_CHECK;

#endif
