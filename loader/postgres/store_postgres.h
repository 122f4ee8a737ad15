/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL store: a table or view of a server, rows by id. A scan is one binary COPY, by id,
 * within one snapshot, in bounded memory; a fetch is one statement, prepared if the session is the
 * reader's own, on a connection that is replaced if the server went away. Private to
 * store_postgres*.c.
 */
#ifndef LOADER_POSTGRES_STORE_POSTGRES_H
#define LOADER_POSTGRES_STORE_POSTGRES_H

#include "loader/column/label_dictionary.h"
#include "loader/postgres/postgres_table.h"
#include "loader/store/store.h"

#define POSTGRES_STATEMENT_BYTES 48

struct postgres_store {
    struct store store; /* first */
    struct postgres_place place;
    struct postgres_table table;
    char *cluster; /* owned; of postgres_cluster(); NULL: not known */
    bool keys_only;
    char *fetch_sql;                          /* owned */
    char *length_sql;                         /* owned; NULL: all rows alike */
    char statement[POSTGRES_STATEMENT_BYTES]; /* name of the prepared fetch_sql */
    struct label_dictionary labels;
    char *first_bad_row;  /* owned */
    const char **numbers; /* owned; names of a blob's features: "0", "1", ... */
};

/* Prepends "postgresql:PLACE, table T, id N: " to this thread's message; returns `code`. */
static inline enum error postgres_store_prefix(const struct postgres_store *store, enum error code,
                                               int64_t id)
{
    return error_prefix(code, "postgresql:%s, table %s, id %lld: ", store->place.shown,
                        store->table.name, (long long)id);
}

/* ERROR_INPUT: no rows. */
enum error postgres_store_refuse_empty(const struct postgres_store *store) MUST_CHECK;

/* The pass that learns the table's recipe. */
enum error postgres_store_learn(struct postgres_store *store) MUST_CHECK;
/* Reads all rows once: store.info's rows, element, labels and bad rows. */
enum error postgres_store_inspect(struct postgres_store *store) MUST_CHECK;

enum error postgres_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                               void *context) MUST_CHECK;
enum error postgres_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
enum error postgres_reader_measure(struct reader *reader, const int64_t *ids, size_t count,
                                   int64_t *lengths) MUST_CHECK;
void postgres_reader_close(struct reader *reader);
enum error postgres_reader_fetch(struct reader *reader, const int64_t *ids, size_t count,
                                 void *features, size_t stride_bytes, double *labels,
                                 enum row_status *status) MUST_CHECK;

#endif
