/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/postgres/postgres_address.h"

#define FAILURES_LIMIT_BYTES 8192
#define STEP_MS 100 /* between two checks for a stop */

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

/* The host being tried. */
struct attempt {
    const struct postgres_place *place;
    const struct postgres_host *host;    /* NULL: libpq chooses */
    const char *address, *session_attrs; /* NULL: the place's own */
    struct buffer *failures;             /* messages so far */
};

static const char *host_name(const struct postgres_host *host)
{
    return host && host->name[0] ? host->name : "the default host";
}

static enum error refuse_connection(PGconn *connection)
{
    char words[512];
    return error_set(ERROR_NETWORK, "%s", words_of(PQerrorMessage(connection), words));
}

static enum error finish_connect(const struct attempt *attempt, PGconn *connection)
{
    const struct postgres_place *place = attempt->place;
    int64_t deadline_ns = clock_deadline_ns(place->connect_ms);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    enum error error = OK;
    while (!error && next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED &&
           PQstatus(connection) != CONNECTION_BAD) {
        error = wait_for(place, connection, next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                         deadline_ns);
        if (!error)
            next = PQconnectPoll(connection);
    }
    if (error == ERROR_TIMEOUT)
        return error_set(ERROR_TIMEOUT, "%s%s%s does not answer within %.0f s",
                         host_name(attempt->host), attempt->address ? ", " : "",
                         attempt->address ? attempt->address : "",
                         (double)place->connect_ms / 1000);
    if (!error && PQstatus(connection) != CONNECTION_OK)
        error = refuse_connection(connection);
    return error;
}

static void drop_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

static PGconn *start_connect(const struct attempt *attempt)
{
    const struct postgres_place *place = attempt->place;
    const char *keys[URI_PARAMETERS_LIMIT + 12] = {"client_encoding", "application_name"};
    const char *values[URI_PARAMETERS_LIMIT + 12] = {"UTF8", "tombola"};
    size_t count = 2;
    for (size_t i = 0; i < place->count; i++, count++) {
        keys[count] = place->keys[i];
        values[count] = place->values[i];
    }
    if (attempt->host) { /* the last value of a keyword counts */
        const char *const more[][2] = {
            {"host", attempt->host->name},
            {"hostaddr", attempt->address ? attempt->address : attempt->host->address},
            {"port", attempt->host->port},
            {attempt->session_attrs ? "target_session_attrs" : NULL, attempt->session_attrs}};
        for (size_t i = 0; i < 4 && more[i][0]; i++, count++) {
            keys[count] = more[i][0];
            values[count] = more[i][1];
        }
    }
    return PQconnectStartParams(keys, values, 1);
}

/* Nothing sent blocks on the server, not even the goodbye of PQfinish(). */
static enum error settle(const struct attempt *attempt, PGconn *connection)
{
    if (PQsetnonblocking(connection, 1))
        return refuse_connection(connection);
    PGresult *result = NULL;
    if (!PQsendQuery(connection, POSTGRES_SETTINGS("SESSION")))
        return refuse_connection(connection);
    enum error error = postgres_answer(attempt->place, connection, PGRES_COMMAND_OK, &result);
    PQclear(result);
    return error;
}

static enum error try_address(const struct attempt *attempt, PGconn **ret_connection)
{
    PGconn *connection = start_connect(attempt);
    if (!connection)
        return error_set_memory(1, "a connection");
    PQsetNoticeReceiver(connection, drop_notice, NULL);
    enum error error = finish_connect(attempt, connection);
    if (!error)
        error = settle(attempt, connection);
    if (error) {
        PQfinish(connection);
        return error;
    }
    *ret_connection = connection;
    return OK;
}

/* Another host may accept. */
static bool is_passed_over(enum error error)
{
    return error && error != ERROR_CANCELLED && error != ERROR_MEMORY;
}

static enum error note_failure(const struct attempt *attempt, enum error error)
{
    if (is_passed_over(error))
        buffer_print(attempt->failures, "%s%s", attempt->failures->length > 0 ? "; " : "",
                     error_message());
    return error;
}

static bool needs_address(const struct postgres_host *host)
{
    return !host->address[0] && host->name[0] && host->name[0] != '/' && host->name[0] != '@';
}

static enum error try_host(struct attempt *attempt, PGconn **ret_connection)
{
    struct postgres_addresses addresses = {.count = 0};
    if (!attempt->host || !needs_address(attempt->host))
        return note_failure(attempt, try_address(attempt, ret_connection));
    enum error error = postgres_addresses_find(
        attempt->host->name, clock_deadline_ns(attempt->place->connect_ms), &addresses);
    if (error)
        return note_failure(attempt, error);
    for (size_t i = 0; i < addresses.count; i++) {
        attempt->address = addresses.texts[i];
        error = note_failure(attempt, try_address(attempt, ret_connection));
        if (!is_passed_over(error))
            break;
    }
    attempt->address = NULL;
    return error;
}

static enum error try_hosts(struct attempt *attempt, PGconn **ret_connection)
{
    struct postgres_hosts *hosts = attempt->place->hosts;
    if (hosts->count == 0)
        return try_host(attempt, ret_connection);
    enum error error = ERROR_NETWORK;
    size_t at = atomic_load(&hosts->first);
    for (size_t i = 0; i < hosts->count && is_passed_over(error); i++) {
        attempt->host = &hosts->list[at];
        error = try_host(attempt, ret_connection);
        if (error)
            at = (at + 1) % hosts->count;
    }
    atomic_store(&hosts->first, at);
    return error;
}

enum error postgres_connect(const struct postgres_place *place, PGconn **ret_connection)
{
    struct buffer failures = BUFFER_INIT(FAILURES_LIMIT_BYTES);
    struct attempt attempt = {.place = place,
                              .session_attrs = place->prefers_standby ? "standby" : NULL,
                              .failures = &failures};
    enum error error = try_hosts(&attempt, ret_connection);
    if (is_passed_over(error) && place->prefers_standby) {
        attempt.session_attrs = "any";
        buffer_clear(&failures);
        error = try_hosts(&attempt, ret_connection);
    }
    if (is_passed_over(error))
        error = error_set(error, "cannot connect to postgresql:%s: %s", place->shown,
                          failures.length > 0 ? failures.data : error_message());
    buffer_release(&failures);
    return error;
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

/* The server's setting that ended the statement, or NULL. */
static const char *timeout_of(const PGresult *result)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (state && strcmp(state, "55P03") == 0)
        return "lock_timeout";
    return state && strcmp(state, "57014") == 0 ? "statement_timeout" : NULL;
}

static enum error code_of(const PGconn *connection, const PGresult *result)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (postgres_is_gone(connection))
        return ERROR_NETWORK;
    /* The statement exists, does not exist, or was prepared for a table that has changed since. */
    if (state &&
        (strcmp(state, "42P05") == 0 || strcmp(state, "26000") == 0 || strcmp(state, "0A000") == 0))
        return ERROR_CONFLICT;
    if (timeout_of(result))
        return ERROR_TIMEOUT;
    /* A standby ends what is in the way of its recovery. */
    return state && strcmp(state, "40001") == 0 ? ERROR_NETWORK : ERROR_INPUT;
}

static enum error refuse(const struct postgres_place *place, PGconn *connection,
                         const PGresult *result)
{
    char words[512];
    const char *message = result ? PQresultErrorMessage(result) : PQerrorMessage(connection);
    const char *timeout = timeout_of(result);
    words_of(message[0] ? message : PQerrorMessage(connection), words);
    if (timeout && strstr(words, "timeout"))
        return error_set(ERROR_TIMEOUT,
                         "postgresql:%s: %s; ALTER ROLE ... SET %s, or options=-c%%20%s%%3D0 in "
                         "the URI, allows more",
                         place->shown, words, timeout, timeout);
    return error_set(code_of(connection, result), "postgresql:%s: %s", place->shown, words);
}

/* A COPY continues after its result: there is no further one before it ends. */
static bool is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_OUT || status == PGRES_COPY_IN;
}

static enum error flush(const struct postgres_place *place, PGconn *connection)
{
    enum error error = OK;
    while (!error && PQflush(connection) == 1) {
        error =
            wait_for(place, connection, POLLIN | POLLOUT, clock_deadline_ns(POSTGRES_ANSWER_MS));
        if (!error && !PQconsumeInput(connection)) /* the server may wait for us to read */
            error = refuse(place, connection, NULL);
    }
    return error;
}

typedef enum error await_input(const struct postgres_place *place, PGconn *connection);

static enum error answer(const struct postgres_place *place, PGconn *connection, int wanted,
                         await_input *await, PGresult **ret_result)
{
    PGresult *last = NULL;
    enum error error = flush(place, connection);
    while (!error) {
        while (!error && PQisBusy(connection))
            error = await(place, connection);
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

enum error postgres_answer(const struct postgres_place *place, PGconn *connection, int wanted,
                           PGresult **ret_result)
{
    return answer(place, connection, wanted, postgres_await_input, ret_result);
}

/* Is the server at work on the connection's statement? Not if it waits for a lock, or for us, whom
 * nothing reaches. Also false behind poolers, which invent the number of the server's process. */
static bool is_at_work(const struct postgres_place *place, const PGconn *connection)
{
    char sql[256];
    PGconn *other = NULL;
    PGresult *result = NULL;
    snprintf(sql, sizeof(sql),
             "SELECT 1 FROM pg_stat_activity WHERE pid = %d AND state = 'active' AND "
             "coalesce(wait_event_type, '') NOT IN ('Lock', 'Client')",
             PQbackendPID(connection));
    enum error error = postgres_connect(place, &other);
    if (!error && PQsendQuery(other, sql))
        error = postgres_answer(place, other, PGRES_TUPLES_OK, &result);
    bool is_at_work = !error && PQntuples(result) == 1;
    PQclear(result);
    PQfinish(other);
    return is_at_work;
}

enum error postgres_await_work(const struct postgres_place *place, PGconn *connection)
{
    struct error_report report;
    for (;;) {
        enum error error = postgres_await_input(place, connection);
        if (error != ERROR_TIMEOUT)
            return error;
        error_report_take(error, &report);
        if (!is_at_work(place, connection))
            return error_restore(&report);
    }
}

enum error postgres_run(const struct postgres_place *place, PGconn *connection, const char *sql,
                        int wanted, PGresult **ret_result)
{
    PGresult *result = NULL;
    if (!PQsendQuery(connection, sql))
        return refuse(place, connection, NULL);
    enum error error = answer(place, connection, wanted, postgres_await_work, &result);
    if (ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return error;
}

/* The text that it selects; NULL: the server refuses to say. */
static enum error ask_text(const struct postgres_place *place, PGconn *connection, const char *sql,
                           char **ret_text)
{
    PGresult *result = NULL;
    *ret_text = NULL;
    enum error error = postgres_run(place, connection, sql, PGRES_TUPLES_OK, &result);
    if (!error && PQntuples(result) == 1) {
        *ret_text = strdup(PQgetvalue(result, 0, 0));
        error = *ret_text ? OK : error_set_memory(64, "a server's name");
    }
    PQclear(result);
    return error == ERROR_INPUT ? OK : error;
}

/* No two servers start in the same microsecond. */
enum error postgres_identify(const struct postgres_place *place, PGconn *connection,
                             char **ret_identity)
{
    return ask_text(
        place, connection,
        "SELECT (EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::int8::text || '/' ||"
        " oid::text FROM pg_database WHERE datname = current_database()",
        ret_identity);
}

enum error postgres_cluster(const struct postgres_place *place, PGconn *connection,
                            char **ret_cluster)
{
    return ask_text(place, connection, "SELECT system_identifier FROM pg_control_system()",
                    ret_cluster);
}

/* A standby that took over has the same rows; any other server may have others. */
enum error postgres_check_cluster(const struct postgres_place *place, PGconn *connection,
                                  const char *cluster)
{
    char *found = NULL;
    enum error error = postgres_cluster(place, connection, &found);
    if (!error && found && cluster && strcmp(found, cluster) != 0)
        error = error_set(ERROR_INPUT,
                          "postgresql:%s is another server than when it was opened (cluster %s, "
                          "not %s), so its rows may be others; a new start reads them",
                          place->shown, found, cluster);
    free(found);
    return error;
}

/* While it takes rows, a server only speaks to refuse them; libpq would look at the end. */
static bool has_spoken(const PGconn *connection)
{
    struct pollfd descriptor = {.fd = PQsocket(connection), .events = POLLIN};
    return poll(&descriptor, 1, 0) > 0;
}

enum error postgres_copy_in(const struct postgres_place *place, PGconn *connection,
                            const char *bytes, size_t length)
{
    PGresult *result = NULL;
    enum error error = OK;
    if (PQputCopyData(connection, bytes, (int)length) == 1) {
        error = flush(place, connection);
        if (error || !has_spoken(connection))
            return error;
        (void)PQputCopyEnd(connection, "no more rows"); /* if it fails, the answer says why */
    }
    error = postgres_answer(place, connection, PGRES_COMMAND_OK, &result);
    PQclear(result);
    return error ? error : refuse(place, connection, NULL); /* the COPY ended too early */
}

enum error postgres_copy_end(const struct postgres_place *place, PGconn *connection,
                             int64_t *ret_rows)
{
    PGresult *result = NULL;
    if (PQputCopyEnd(connection, NULL) != 1)
        return refuse(place, connection, NULL);
    enum error error = postgres_answer(place, connection, PGRES_COMMAND_OK, &result);
    if (!error)
        *ret_rows = strtoll(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return error;
}
