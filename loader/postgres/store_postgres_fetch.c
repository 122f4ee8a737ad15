/* SPDX-License-Identifier: MIT */
/*
 * Rows by id: one statement on one connection per reader, binary both ways. It is prepared, which
 * halves the time for wide tables, until the session turns out to be a pooler's: from then on each
 * request sends the whole statement, and works in any session.
 */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/postgres/store_postgres.h"
#include "loader/store/fetch_call.h"
#include "loader/store/store_row.h"

#define TYPE_INTEGER_8 20
#define ARRAY_HEAD_BYTES 20
#define TRIES 3 /* a server may go away more than once */

struct postgres_reader {
    struct reader reader;          /* first */
    PGconn *connection;            /* owned; NULL: there is none */
    bool measures;                 /* asks for lengths instead of rows */
    bool is_pooled;                /* sessions are shared: nothing is prepared */
    struct fetch_place *places;    /* owned; [capacity] */
    bool *is_found;                /* owned; [capacity] */
    uint8_t *parameter;            /* owned; the ids as the server's parameter */
    struct postgres_value *values; /* owned; of one row */
    size_t capacity;
};

static const struct postgres_store *store_of(const struct postgres_reader *reader)
{
    return (const struct postgres_store *)reader->reader.store;
}

static void disconnect(struct postgres_reader *reader)
{
    PQfinish(reader->connection);
    reader->connection = NULL;
}

static enum error refuse_send(const struct postgres_reader *reader)
{
    return error_set(ERROR_NETWORK, "postgresql:%s: %.300s", store_of(reader)->place.shown,
                     PQerrorMessage(reader->connection));
}

static void note_pooler(struct postgres_reader *reader)
{
    log_debug("%s: a pooler shares its sessions; statements are not prepared", error_message());
    reader->is_pooled = true;
}

static enum error prepare(struct postgres_reader *reader)
{
    const struct postgres_store *store = store_of(reader);
    PGresult *result = NULL;
    enum error error = OK;
    if (reader->is_pooled)
        return OK;
    if (!PQsendPrepare(reader->connection, store->statement, store->fetch_sql, 0, NULL))
        error = refuse_send(reader);
    if (!error)
        error = postgres_answer(&store->place, reader->connection, PGRES_COMMAND_OK, &result);
    PQclear(result);
    if (error == ERROR_CONFLICT) {
        note_pooler(reader);
        return OK;
    }
    if (error)
        disconnect(reader);
    return error;
}

void postgres_reader_close(struct reader *base)
{
    struct postgres_reader *reader = (struct postgres_reader *)base;
    disconnect(reader);
    free(reader->places);
    free(reader->is_found);
    free(reader->parameter);
    free(reader->values);
    free(reader);
}

enum error postgres_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct postgres_store *store = (struct postgres_store *)base;
    struct postgres_reader *reader = array_new(1, sizeof(*reader), "a reader");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = base;
    reader->values = array_new(postgres_value_count(&store->table.format, false),
                               sizeof(*reader->values), "a row");
    enum error error = reader->values ? OK : ERROR_MEMORY;
    if (!error)
        error = postgres_connect(&store->place, &reader->connection);
    if (!error)
        error = postgres_check_cluster(&store->place, reader->connection, store->cluster);
    if (!error)
        error = prepare(reader);
    if (error) {
        postgres_reader_close(&reader->reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

static enum error reserve(struct postgres_reader *reader, size_t count)
{
    if (count <= reader->capacity)
        return OK;
    free(reader->places);
    free(reader->is_found);
    free(reader->parameter);
    reader->capacity = 0;
    reader->places = array_new(count, sizeof(*reader->places), "a batch of rows");
    reader->is_found = array_new(count, sizeof(*reader->is_found), "a batch of rows");
    reader->parameter = array_new(ARRAY_HEAD_BYTES + count * 12, 1, "a batch of rows");
    if (!reader->places || !reader->is_found || !reader->parameter)
        return ERROR_MEMORY;
    reader->capacity = count;
    return OK;
}

/* ---- asking ------------------------------------------------------------- */

static uint8_t *put_big_endian(uint8_t *at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
    return at + bytes;
}

/* Each id once, as int8[]; returns its size. Places are sorted. */
static size_t make_parameter(struct postgres_reader *reader, size_t count)
{
    uint8_t *at = reader->parameter + ARRAY_HEAD_BYTES;
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && reader->places[i].key == reader->places[i - 1].key)
            continue;
        at = put_big_endian(at, 8, 4);
        at = put_big_endian(at, (uint64_t)reader->places[i].key, 8);
        different++;
    }
    uint8_t *head = put_big_endian(reader->parameter, 1, 4); /* dimensions */
    head = put_big_endian(head, 0, 4);                       /* no nulls */
    head = put_big_endian(head, TYPE_INTEGER_8, 4);
    head = put_big_endian(head, different, 4);
    put_big_endian(head, 1, 4); /* counted from 1 */
    return (size_t)(at - reader->parameter);
}

static enum error ask_once(struct postgres_reader *reader, size_t bytes, PGresult **ret_result)
{
    const struct postgres_store *store = store_of(reader);
    const char *values[] = {(const char *)reader->parameter};
    const int lengths[] = {(int)bytes}, formats[] = {1};
    const char *sql = reader->measures ? store->length_sql : store->fetch_sql;
    bool whole = reader->is_pooled || reader->measures;
    int sent =
        whole ? PQsendQueryParams(reader->connection, sql, 1, NULL, values, lengths, formats, 1)
              : PQsendQueryPrepared(reader->connection, store->statement, 1, values, lengths,
                                    formats, 1);
    return sent ? postgres_answer(&store->place, reader->connection, PGRES_TUPLES_OK, ret_result)
                : refuse_send(reader);
}

static enum error ask(struct postgres_reader *reader, size_t bytes, PGresult **ret_result)
{
    enum error error = ask_once(reader, bytes, ret_result);
    if (error != ERROR_CONFLICT || reader->is_pooled)
        return error;
    note_pooler(reader);
    return ask_once(reader, bytes, ret_result);
}

static enum error connect_again(struct postgres_reader *reader)
{
    const struct postgres_store *store = store_of(reader);
    enum error error = postgres_reconnect(&store->place, &reader->connection);
    if (!error)
        error = postgres_check_cluster(&store->place, reader->connection, store->cluster);
    return error ? error : prepare(reader);
}

/* Reads are idempotent: what a server that went away did not answer is requested again. */
static enum error ask_patiently(struct postgres_reader *reader, size_t bytes, PGresult **ret_result)
{
    enum error error = ERROR_NETWORK;
    for (int tries = 0; tries < TRIES; tries++) {
        error = reader->connection ? OK : connect_again(reader);
        if (!error)
            error = ask(reader, bytes, ret_result);
        if (!error)
            return OK;
        bool is_gone = error == ERROR_NETWORK || error == ERROR_TIMEOUT ||
                       (reader->connection && postgres_is_gone(reader->connection));
        disconnect(reader);
        if (!is_gone || tries == TRIES - 1)
            break;
        log_warning("%s; connecting again", error_message());
    }
    return error;
}

/* ---- answers ------------------------------------------------------------ */

static size_t first_place(const struct postgres_reader *reader, size_t count, int64_t id)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->places[middle].key < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_values(struct postgres_reader *reader, const PGresult *result, int row)
{
    int count = PQnfields(result);
    for (int i = 0; i < count; i++)
        reader->values[i] = (struct postgres_value){
            .bytes =
                PQgetisnull(result, row, i) ? NULL : (const uint8_t *)PQgetvalue(result, row, i),
            .length = (size_t)PQgetlength(result, row, i)};
}

static enum error decode(struct postgres_reader *reader, int64_t id, struct fetch_call *call,
                         size_t index)
{
    const struct postgres_store *store = store_of(reader);
    const struct store_info *info = &store->store.info;
    struct postgres_row decoded;
    const struct store_row *row = &decoded.row;
    uint8_t none[1];
    double label = 0;
    uint8_t *slot = call->row_bytes > 0 ? fetch_call_slot(call, index) : none;
    enum error error =
        postgres_decode_row(&store->table.format, reader->values, info->element, slot, &decoded);
    if (!error)
        error = store_row_check(row, id, info, &store->labels, "the store", &label);
    if (error || row->status == ROW_BAD)
        postgres_store_prefix(store, error, id);
    if (!error && row_limit_varies(&store->table.format.limit))
        fetch_call_length(call, index, row->length);
    if (!error)
        fetch_call_set(call, index, row->status, label);
    return error;
}

static uint64_t number_of(const struct postgres_value *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < value->length && i < 8; i++)
        number = number << 8 | value->bytes[i];
    return number;
}

static enum error take_row(struct postgres_reader *reader, struct fetch_call *call, size_t count)
{
    const struct postgres_store *store = store_of(reader);
    uint64_t number = number_of(&reader->values[0]);
    size_t place = first_place(reader, count, (int64_t)number);
    if (place == count || reader->places[place].key != (int64_t)number)
        return error_set(ERROR_INPUT,
                         "postgresql:%s, table %s: the server sent a row with the id "
                         "%lld, which was not asked for",
                         store->place.shown, store->table.name, (long long)number);
    if (reader->is_found[place]) /* without a unique index, it may have been inserted since */
        return error_set(ERROR_INPUT,
                         "postgresql:%s, table %s: id %lld comes twice; each may come only once",
                         store->place.shown, store->table.name, (long long)number);
    size_t index = reader->places[place].index;
    enum error error = decode(reader, (int64_t)number, call, index);
    if (error)
        return error;
    for (; place < count && reader->places[place].key == (int64_t)number; place++) {
        reader->is_found[place] = true;
        if (reader->places[place].index != index)
            fetch_call_copy(call, index, reader->places[place].index);
    }
    return OK;
}

static enum error take_result(struct postgres_reader *reader, struct fetch_call *call,
                              const PGresult *result, size_t count)
{
    const struct postgres_store *store = store_of(reader);
    enum error error = postgres_table_check(&store->table, false, result);
    if (error)
        return error_prefix(error, "postgresql:%s: ", store->place.shown);
    for (int row = 0; row < PQntuples(result) && !error; row++) {
        take_values(reader, result, row);
        error = reader->values[0].bytes ? take_row(reader, call, count)
                                        : error_set(ERROR_INPUT, "an id is null");
    }
    for (size_t i = 0; i < count && !error; i++) {
        if (reader->is_found[i])
            continue;
        error_set(ERROR_NOT_FOUND, "postgresql:%s, table %s has no row with the id %lld",
                  store->place.shown, store->table.name, (long long)reader->places[i].key);
        fetch_call_set(call, reader->places[i].index, ROW_MISSING, 0);
    }
    return error;
}

/* Each id once, sorted; the caller owns the result. */
static enum error ask_for(struct postgres_reader *reader, const int64_t *ids, size_t count,
                          PGresult **ret_result)
{
    for (size_t i = 0; i < count; i++) {
        reader->places[i] = (struct fetch_place){.key = ids[i], .index = i};
        reader->is_found[i] = false;
    }
    fetch_places_sort(reader->places, count);
    return ask_patiently(reader, make_parameter(reader, count), ret_result);
}

static void take_lengths(struct postgres_reader *reader, const PGresult *result, size_t count,
                         int64_t *lengths)
{
    size_t unit = element_bytes(reader->reader.store->info.element);
    for (int row = 0; row < PQntuples(result); row++) {
        take_values(reader, result, row);
        int64_t id = (int64_t)number_of(&reader->values[0]);
        size_t place = first_place(reader, count, id);
        for (; place < count && reader->places[place].key == id; place++)
            lengths[reader->places[place].index] = (int64_t)(number_of(&reader->values[1]) / unit);
    }
}

enum error postgres_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                   int64_t *lengths)
{
    struct postgres_reader *reader = (struct postgres_reader *)base;
    PGresult *result = NULL;
    enum error error = count > 0 ? reserve(reader, count) : OK;
    if (error || count == 0)
        return error;
    memset(lengths, 0, count * sizeof(*lengths));
    reader->measures = true;
    error = ask_for(reader, ids, count, &result);
    reader->measures = false;
    if (!error && PQnfields(result) != 2)
        error = error_set(ERROR_NETWORK, "postgresql:%s: its answer is not one to what was asked",
                          store_of(reader)->place.shown);
    if (!error)
        take_lengths(reader, result, count, lengths);
    PQclear(result);
    return error;
}

enum error postgres_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                 void *features, size_t stride_bytes, double *labels,
                                 enum row_status *status)
{
    struct postgres_reader *reader = (struct postgres_reader *)base;
    struct fetch_call call;
    PGresult *result = NULL;
    if (count == 0)
        return OK;
    enum error error = reserve(reader, count);
    if (error)
        return error;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    error = ask_for(reader, ids, count, &result);
    if (!error)
        error = take_result(reader, &call, result, count);
    PQclear(result);
    return error ? error : fetch_call_finish(&call);
}
