/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define STEP_MS 100 /* so often is looked whether to stop */

/* ---- the place ---------------------------------------------------------- */

/* "//user:secret@host/db" as "//user@host/db". */
static char *without_password(const char *path)
{
    char *shown = strdup(path);
    if (!shown)
        return NULL;
    char *at = strchr(shown, '@');
    char *slash = strncmp(shown, "//", 2) == 0 ? strchr(shown + 2, '/') : NULL;
    char *colon = at ? strchr(shown, ':') : NULL;
    if (at && colon && colon < at && (!slash || at < slash || !strchr(slash, '@')))
        memmove(colon, at, strlen(at) + 1);
    return shown;
}

static enum error add(struct postgres_place *place, const char *key, const char *value)
{
    char *keyword = strdup(key);
    char *copy = strdup(value);
    if (!keyword || !copy) {
        free(keyword);
        free(copy);
        return error_set_memory(strlen(value), "a server's place");
    }
    place->keys[place->count] = keyword;
    place->values[place->count++] = copy;
    return OK;
}

static enum error add_known(struct postgres_place *place, struct uri_query *query)
{
    enum error error = OK;
    PQconninfoOption *known = PQconndefaults();
    if (!known)
        return error_set_memory(1, "libpq's parameters");
    for (size_t i = 0; i < query->count && !error; i++) {
        struct uri_parameter *parameter = &query->parameters[i];
        for (PQconninfoOption *option = known; option->keyword && !error; option++) {
            if (strcmp(option->keyword, parameter->key) != 0 ||
                strcmp(option->keyword, "dbname") == 0)
                continue;
            parameter->known = true;
            error = add(place, parameter->key, parameter->value);
        }
    }
    PQconninfoFree(known);
    return error;
}

enum error postgres_place_init(struct postgres_place *place, struct uri *uri)
{
    char whole[4096];
    *place = (struct postgres_place){.shown = without_password(uri->path)};
    snprintf(whole, sizeof(whole), "postgresql:%s", uri->path);
    enum error error = place->shown ? OK : error_set_memory(strlen(uri->path), "a server's place");
    if (!error && strlen(uri->path) + 16 > sizeof(whole))
        error = error_set(ERROR_USAGE, "a postgresql: URI of over %zu bytes", sizeof(whole));
    if (!error)
        error = add(place, "dbname", whole); /* libpq takes a whole URI as this */
    if (!error)
        error = add_known(place, &uri->query);
    if (error)
        postgres_place_release(place);
    return error;
}

void postgres_place_release(struct postgres_place *place)
{
    for (size_t i = 0; i < place->count; i++) {
        free((char *)place->keys[i]);
        free(place->values[i]);
    }
    free(place->shown);
    *place = (struct postgres_place){.shown = NULL};
}

/* ---- waiting ------------------------------------------------------------ */

/* libpq ends its messages with a line feed, and writes several lines. */
static const char *words_of(const char *message, char out[512])
{
    size_t length = 0;
    for (; *message && length < 511; message++) {
        if (*message != '\n')
            out[length++] = *message;
        else if (message[1])
            out[length++] = ' ';
    }
    out[length] = '\0';
    return length > 0 ? out : "it said nothing";
}

static enum error wait_for(const struct postgres_place *place, PGconn *connection, short events,
                           int64_t deadline_ns)
{
    struct pollfd descriptor = {.fd = PQsocket(connection), .events = events};
    for (;;) {
        int64_t left = clock_left_ms(deadline_ns);
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while waiting for postgresql:%s",
                             place->shown);
        if (left == 0)
            return error_set(ERROR_TIMEOUT, "postgresql:%s does not answer", place->shown);
        int ready = poll(&descriptor, 1, (int)(left < STEP_MS ? left : STEP_MS));
        if (ready > 0)
            return OK;
    }
}

enum error postgres_await_input(const struct postgres_place *place, PGconn *connection)
{
    enum error error = wait_for(place, connection, POLLIN, clock_deadline_ns(POSTGRES_ANSWER_MS));
    char words[512];
    if (!error && !PQconsumeInput(connection))
        error = error_set(ERROR_NETWORK, "postgresql:%s: %s", place->shown,
                          words_of(PQerrorMessage(connection), words));
    return error;
}

/* ---- connecting --------------------------------------------------------- */

static enum error finish_connect(const struct postgres_place *place, PGconn *connection)
{
    int64_t deadline_ns = clock_deadline_ns(POSTGRES_CONNECT_MS);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    enum error error = OK;
    char words[512];
    while (!error && next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED &&
           PQstatus(connection) != CONNECTION_BAD) {
        error = wait_for(place, connection, next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                         deadline_ns);
        if (!error)
            next = PQconnectPoll(connection);
    }
    if (!error && PQstatus(connection) != CONNECTION_OK)
        error = error_set(ERROR_NETWORK, "cannot connect to postgresql:%s: %s", place->shown,
                          words_of(PQerrorMessage(connection), words));
    return error;
}

static void drop_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

enum error postgres_connect(const struct postgres_place *place, PGconn **ret_connection)
{
    const char *keys[URI_PARAMETERS_LIMIT + 8] = {"client_encoding", "application_name"};
    const char *values[URI_PARAMETERS_LIMIT + 8] = {"UTF8", "tombola"};
    for (size_t i = 0; i < place->count; i++) {
        keys[2 + i] = place->keys[i];
        values[2 + i] = place->values[i];
    }
    PGconn *connection = PQconnectStartParams(keys, values, 1);
    if (!connection)
        return error_set_memory(1, "a connection");
    PQsetNoticeReceiver(connection, drop_notice, NULL);
    enum error error = finish_connect(place, connection);
    if (!error)
        error = postgres_run(place, connection,
                             "SET extra_float_digits = 1; SET bytea_output = 'hex';"
                             "SET datestyle = 'ISO'",
                             PGRES_COMMAND_OK, NULL);
    if (error) {
        PQfinish(connection);
        return error;
    }
    *ret_connection = connection;
    return OK;
}

enum error postgres_reconnect(const struct postgres_place *place, PGconn **ret_connection)
{
    int64_t deadline_ns = clock_deadline_ns(POSTGRES_RECONNECT_MS);
    for (int64_t pause_ms = STEP_MS;; pause_ms *= 2) {
        enum error error = postgres_connect(place, ret_connection);
        if (!error || error == ERROR_CANCELLED || error == ERROR_MEMORY ||
            clock_left_ms(deadline_ns) == 0)
            return error;
        log_warning("%s; trying again", error_message());
        int64_t left = clock_left_ms(deadline_ns);
        if (stop_wait(clock_deadline_ns(pause_ms < left ? pause_ms : left)))
            return error_set(ERROR_CANCELLED, "stopped while waiting for postgresql:%s",
                             place->shown);
    }
}

/* ---- asking ------------------------------------------------------------- */

bool postgres_is_gone(const PGconn *connection)
{
    return PQstatus(connection) != CONNECTION_OK;
}

/* The statement exists, does not exist, or was prepared for a table that has changed since. */
static bool is_about_statements(const PGresult *result)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    return state && (strcmp(state, "42P05") == 0 || strcmp(state, "26000") == 0 ||
                     strcmp(state, "0A000") == 0);
}

static enum error refuse(const struct postgres_place *place, PGconn *connection,
                         const PGresult *result)
{
    char words[512];
    const char *message = result ? PQresultErrorMessage(result) : PQerrorMessage(connection);
    enum error code = is_about_statements(result) ? ERROR_CONFLICT : ERROR_INPUT;
    return error_set(postgres_is_gone(connection) ? ERROR_NETWORK : code, "postgresql:%s: %s",
                     place->shown,
                     words_of(message[0] ? message : PQerrorMessage(connection), words));
}

/* A COPY continues behind its result: there is no next one before it ends. */
static bool is_copy(const PGresult *result)
{
    return PQresultStatus(result) == PGRES_COPY_OUT;
}

static enum error flush(const struct postgres_place *place, PGconn *connection)
{
    int64_t deadline_ns = clock_deadline_ns(POSTGRES_ANSWER_MS);
    enum error error = OK;
    while (!error && PQflush(connection) == 1)
        error = wait_for(place, connection, POLLIN | POLLOUT, deadline_ns);
    return error;
}

enum error postgres_answer(const struct postgres_place *place, PGconn *connection, int wanted,
                           PGresult **ret_result)
{
    PGresult *last = NULL;
    enum error error = flush(place, connection);
    while (!error) {
        while (!error && PQisBusy(connection))
            error = postgres_await_input(place, connection);
        PGresult *next = error ? NULL : PQgetResult(connection);
        if (!next)
            break;
        if (!last || (int)PQresultStatus(last) == wanted)
            PQclear(last);
        else { /* the first failure is reported */
            PQclear(next);
            next = last;
        }
        last = next;
        if (is_copy(last))
            break;
    }
    if (!error && (!last || (int)PQresultStatus(last) != wanted))
        error = refuse(place, connection, last);
    if (error) {
        PQclear(last);
        last = NULL;
    }
    *ret_result = last;
    return error;
}

enum error postgres_run(const struct postgres_place *place, PGconn *connection, const char *sql,
                        int wanted, PGresult **ret_result)
{
    PGresult *result = NULL;
    if (!PQsendQuery(connection, sql))
        return refuse(place, connection, NULL);
    enum error error = postgres_answer(place, connection, wanted, &result);
    if (ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return error;
}
