/* SPDX-License-Identifier: MIT */
/*
 * A table or view of a PostgreSQL database: its columns, their roles, and the SQL that fetches
 * rows. Immutable once made.
 */
#ifndef LOADER_POSTGRES_POSTGRES_TABLE_H
#define LOADER_POSTGRES_POSTGRES_TABLE_H

#include "common/error.h"
#include "loader/column/column_role.h"
#include "loader/postgres/postgres_connection.h"
#include "loader/postgres/postgres_facts.h"
#include "loader/postgres/postgres_row.h"

struct postgres_table {
    char *name;              /* owned; quoted, with its schema */
    unsigned oid;            /* a table that takes its place has another */
    char **columns;          /* owned; [count], in the table's order */
    unsigned *types;         /* owned; [count], OIDs */
    char **type_names;       /* owned; [count], for messages */
    enum column_role *roles; /* owned; [count] */
    size_t count;
    char *identity;                /* owned; of the database (postgres_identify()); NULL: unknown */
    bool has_key;                  /* a unique index on the id column only */
    struct postgres_format format; /* names are borrowed from columns */
    const char **feature_names;    /* owned list */
    enum postgres_form *feature_forms; /* owned */
    struct cell_plan plan;             /* of the feature columns */
    struct postgres_facts facts;       /* recorded by import */
    unsigned *value_types;             /* owned; types of a row's selected values */
};

/* `name` NULL: "samples", or the only table. `keys_only`: features may be of any type, and what
 * bytes hold is not examined. If the choice does not say what bytes hold: what import recorded,
 * else u8. ERROR_NOT_FOUND: no such table; ERROR_INPUT: a column has an unsuitable type, or bytes
 * look like floats or integers and nothing says what they are; ERROR_USAGE: the choice names a
 * column that does not exist. */
enum error postgres_table_init(struct postgres_table *table, const struct postgres_place *place,
                               struct pg_conn *connection, const char *name,
                               const struct column_choice *choice, bool keys_only) MUST_CHECK;
void postgres_table_release(struct postgres_table *table);

/* "SELECT ... FROM ..." of all values, or only of the keys, between `before` and `tail`, in which
 * "$id" stands for the id column. free() it; NULL: the error is set. */
char *postgres_table_select(const struct postgres_table *table, bool keys_only, const char *before,
                            const char *tail);
/* SELECT of id and length of the blob, for a list of ids. free() it; NULL: the error is set. */
char *postgres_table_select_length(const struct postgres_table *table);
/* ERROR_INPUT unless the result has what postgres_table_select() selects, with the types it had
 * when the table was opened, and is of this very table. */
enum error postgres_table_check(const struct postgres_table *table, bool keys_only,
                                const struct pg_result *result) MUST_CHECK;

#endif
