/* SPDX-License-Identifier: MIT */
/*
 * Which table of an SQLite file is the store, and the roles of its columns. An ordinary table's
 * rows are found by id (an INTEGER PRIMARY KEY, a column with its own unique index, id=rowid), else
 * by SQLite's row numbers, which the store keeps with the ids. A view is suitable if SQLite looks
 * its ids up in INTEGER PRIMARY KEYs.
 */
#ifndef LOADER_SQLITE_SQLITE_TABLE_H
#define LOADER_SQLITE_SQLITE_TABLE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/column/cell_plan.h"
#include "loader/column/column_role.h"
#include "loader/sqlite/sqlite_facts.h"

struct sqlite_table {
    char *name;     /* owned */
    char **columns; /* owned; [count] */
    size_t count;
    const char *key_of[COLUMN_ROLES]; /* id, label, weight, group: borrowed from columns; or NULL */
    const char **features;            /* owned list of borrowed names; [feature_count] */
    size_t feature_count;             /* columns that hold features */
    struct cell_plan plan;            /* of them */
    bool view;
    const char *row_name; /* SQL's name of row numbers, if only they find a row; else NULL */
};

/* `wanted` is the URI's table=, or NULL: the imported one, "samples", or the only table. The first
 * two may be views. Messages name the file and its tables. */
enum error sqlite_table_find(sqlite3 *connection, const char *path, const char *wanted,
                             const struct sqlite_facts *facts, char **ret_name) MUST_CHECK;

/* Takes `name` over, also on failure. Facts about a table that was dropped, and whose name another
 * one has, are released: it lacks import's column of features. */
enum error sqlite_table_init(struct sqlite_table *table, sqlite3 *connection, const char *path,
                             char *name, const struct column_choice *choice,
                             struct sqlite_facts *facts) MUST_CHECK;
void sqlite_table_release(struct sqlite_table *table);

/* SELECT of id, label, weight, group (NULL if absent), then, with `features`, all feature columns,
 * last the row number if there is a row_name. `tail` follows, in which "$" is the table, used with
 * `index` (NULL: any), "@" the id column, "#" the row_name. free() it. */
enum error sqlite_table_select(const struct sqlite_table *table, bool features, const char *index,
                               const char *tail, char **ret_sql) MUST_CHECK;

#endif
