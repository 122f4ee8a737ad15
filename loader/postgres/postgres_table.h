/* SPDX-License-Identifier: MIT */
/*
 * A table or view of a PostgreSQL database: its columns, what each is taken for, and the SQL that
 * asks for rows. Immutable once made.
 */
#ifndef LOADER_POSTGRES_POSTGRES_TABLE_H
#define LOADER_POSTGRES_POSTGRES_TABLE_H

#include "common/error.h"
#include "loader/postgres/postgres_connection.h"
#include "loader/postgres/postgres_facts.h"
#include "loader/postgres/postgres_row.h"
#include "loader/store/column_role.h"

struct postgres_table {
    char *name;              /* owned; quoted, with its schema */
    char **columns;          /* owned; [count], in the table's order */
    unsigned *types;         /* owned; [count], OIDs */
    char **type_names;       /* owned; [count], as people write them */
    enum column_role *roles; /* owned; [count] */
    size_t count;
    char *identity; /* owned; of the database (postgres_identify()); NULL: not known */
    bool has_key;   /* a unique index on the id column alone */
    struct postgres_format format;     /* names are borrowed from columns */
    const char **feature_names;        /* owned list */
    enum postgres_form *feature_forms; /* owned */
    struct cell_plan plan;             /* of the columns of features */
    struct postgres_facts facts;       /* what import noted */
    unsigned *value_types;             /* owned; of the values of a row as they are selected */
};

/* `name` NULL: "samples", or the only table. Where the choice does not say what bytes hold, it is
 * what import noted, else u8. ERROR_NOT_FOUND where there is none, ERROR_INPUT where a column's
 * type does not do or nobody says what values are that look like floats or integers, ERROR_USAGE
 * where the choice names a column that is not there. */
enum error postgres_table_init(struct postgres_table *table, const struct postgres_place *place,
                               struct pg_conn *connection, const char *name,
                               const struct column_choice *choice) MUST_CHECK;
void postgres_table_release(struct postgres_table *table);

/* "SELECT ... FROM ..." of all values, or of the keys only, between `before` and `tail`, in which
 * "$id" stands for the id column. free() it; NULL: error is set. */
char *postgres_table_select(const struct postgres_table *table, bool keys_only, const char *before,
                            const char *tail);
/* SELECT of id and bytes of the blob, by a list of ids. free() it; NULL: error is set. */
char *postgres_table_select_length(const struct postgres_table *table);
/* ERROR_INPUT unless the result has the values of all columns, each of the type that it had when
 * the table was opened. */
enum error postgres_table_check(const struct postgres_table *table,
                                const struct pg_result *result) MUST_CHECK;

#endif
