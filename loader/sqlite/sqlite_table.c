/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/text.h"
#include "loader/sqlite/sqlite_file.h"

#define SQL_LIMIT_BYTES ((size_t)8 << 20)

static const char rowid[] = "rowid";

/* ---- lists of names from queries ---------------------------------------- */

struct names {
    char **items; /* owned */
    size_t count, capacity;
};

static void release_names(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct names){.items = NULL};
}

static enum error add_name(struct names *names, const char *text)
{
    enum error error = array_grow((void **)&names->items, &names->capacity, names->count + 1,
                                  sizeof(char *), "names in an SQLite file");
    if (error)
        return error;
    names->items[names->count] = strdup(text);
    if (!names->items[names->count])
        return error_set_memory(strlen(text), "a name in an SQLite file");
    names->count++;
    return OK;
}

/* The last column of every row; `argument` is ?1. */
static enum error query_names(sqlite3 *connection, const char *path, const char *sql,
                              const char *argument, struct names *names)
{
    sqlite3_stmt *statement = NULL;
    int result = SQLITE_DONE;
    enum error error = sqlite_prepare(connection, path, sql, &statement);
    if (!error && argument && sqlite3_bind_text(statement, 1, argument, -1, SQLITE_STATIC))
        error = sqlite_refuse(connection, sqlite3_errcode(connection), path, "read it");
    while (!error && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text =
            (const char *)sqlite3_column_text(statement, sqlite3_column_count(statement) - 1);
        error = sqlite_check_values(statement);
        if (!error)
            error = add_name(names, text ? text : "");
    }
    if (!error && result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    sqlite3_finalize(statement);
    return error;
}

/* ---- the table ---------------------------------------------------------- */

static const char *find(const struct names *names, const char *wanted)
{
    for (size_t i = 0; i < names->count; i++) {
        if (sqlite3_stricmp(names->items[i], wanted) == 0)
            return names->items[i];
    }
    return NULL;
}

static const char tables_sql[] =
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
    "ESCAPE '\\' AND name NOT IN ('tombola', 'tombola_labels') AND sql NOT LIKE 'create virtual%' "
    "ORDER BY name";
/* Generated columns (hidden: 2, 3) are columns; hidden ones of virtual tables (1) are arguments. */
static const char columns_sql[] =
    "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid";
static const char views_sql[] = "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name";

static enum error refuse_table(const char *path, const char *wanted, const struct names *names)
{
    char list[NAME_LIST_BYTES];
    char shown[TEXT_QUOTE_BYTES];
    if (names->count == 0)
        return error_set(ERROR_INPUT, "%s has no tables", path);
    name_list((const char *const *)names->items, names->count, list);
    if (!wanted)
        return error_set(ERROR_INPUT,
                         "%s does not say which table is meant; table= must name one of %s", path,
                         list);
    return error_set(ERROR_INPUT, "%s has no table %s; it has %s", path,
                     text_quote(shown, sizeof(shown), wanted, strlen(wanted)), list);
}

enum error sqlite_table_find(sqlite3 *connection, const char *path, const char *wanted,
                             const struct sqlite_facts *facts, char **ret_name)
{
    struct names names = {.items = NULL};
    const char *found = NULL;
    enum error error = query_names(connection, path, tables_sql, NULL, &names);
    size_t tables = names.count;
    if (!error)
        error = query_names(connection, path, views_sql, NULL, &names);
    if (error)
        goto out;
    if (wanted)
        found = find(&names, wanted);
    else if (facts->there)
        found = find(&names, facts->table);
    if (!found && !wanted)
        found = find(&names, "samples");
    if (!found && !wanted && tables == 1)
        found = names.items[0];
    if (!found) {
        error = refuse_table(path, wanted, &names);
        goto out;
    }
    *ret_name = strdup(found);
    if (!*ret_name)
        error = error_set_memory(strlen(found), "a table's name");
out:
    release_names(&names);
    return error;
}

/* ---- the id column ------------------------------------------------------ */

/* Does the name mean the row numbers? A table created WITHOUT ROWID has none, and a column of that
 * name hides them. */
static enum error has_rowid(const struct sqlite_table *table, sqlite3 *connection, const char *path,
                            const char *name, bool *ret_has)
{
    struct names columns = {.items = table->columns, .count = table->count};
    sqlite3_stmt *statement = NULL;
    *ret_has = false;
    if (find(&columns, name))
        return OK;
    char *sql = sqlite3_mprintf("SELECT %s FROM \"%w\"", name, table->name);
    if (!sql)
        return error_set_memory(strlen(table->name), "an SQLite statement");
    int result = sqlite3_prepare_v2(connection, sql, -1, &statement, NULL);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    if (result != SQLITE_OK && result != SQLITE_ERROR)
        return sqlite_refuse(connection, result, path, "read it");
    *ret_has = result == SQLITE_OK;
    return OK;
}

/* The columns that find a row at once: an INTEGER PRIMARY KEY, or the only column of a unique index
 * over all rows. */
static enum error find_keys(sqlite3 *connection, const char *path, const char *table,
                            struct names *ret_keys)
{
    enum error error = query_names(connection, path,
                                   "SELECT name FROM pragma_table_info(?1) WHERE pk = 1 AND "
                                   "upper(type) = 'INTEGER' AND NOT EXISTS (SELECT 1 FROM "
                                   "pragma_table_info(?1) WHERE pk > 1)",
                                   table, ret_keys);
    if (error)
        return error;
    return query_names(connection, path,
                       "SELECT (SELECT name FROM pragma_index_info(list.name)) FROM "
                       "pragma_index_list(?1) AS list WHERE \"unique\" AND NOT partial AND (SELECT "
                       "count(*) FROM pragma_index_info(list.name)) = 1",
                       table, ret_keys);
}

/* `id` NULL: there is none, of a URI that asked for row numbers or did not. */
static enum error refuse_id(const struct sqlite_table *table, const char *path, const char *id,
                            bool asked, bool rows)
{
    if (!id && asked)
        return error_set(ERROR_INPUT,
                         "%s: %s \"%s\" has no row numbers%s; id= must name the column of the ids",
                         path, table->view ? "view" : "table", table->name,
                         table->view ? "" : " (it is WITHOUT ROWID)");
    if (!id)
        return error_set(ERROR_INPUT,
                         "%s: %s \"%s\" has no column \"id\" and no INTEGER PRIMARY KEY; id= "
                         "must name the column of the ids%s",
                         path, table->view ? "view" : "table", table->name,
                         rows ? " (id=rowid takes SQLite's row numbers)" : "");
    char *advice =
        table->view ? sqlite3_mprintf("CREATE TABLE t AS SELECT * FROM \"%w\"", table->name)
                    : sqlite3_mprintf("CREATE UNIQUE INDEX i ON \"%w\"(\"%w\")", table->name, id);
    if (!advice)
        return error_set_memory(strlen(table->name), "an SQLite statement");
    enum error error =
        table->view
            ? error_set(ERROR_INPUT,
                        "%s: \"%s\" is a view, and its rows cannot be found by \"%s\" at once, "
                        "which must be the INTEGER PRIMARY KEY of the tables behind it; make a "
                        "table of it (%s) and say table=t",
                        path, table->name, id, advice)
            : error_set(ERROR_INPUT,
                        "%s: rows of table \"%s\" cannot be found by \"%s\" at once; in a table "
                        "without row numbers it must have a unique index (%s)",
                        path, table->name, id, advice);
    sqlite3_free(advice);
    return error;
}

/* Does SQLite find one id of a view by row numbers alone? Its query plan says so. */
static enum error view_has_key(sqlite3 *connection, const char *path, const char *view,
                               const char *id, bool *ret_has)
{
    struct names steps = {.items = NULL};
    size_t searches = 0;
    char *sql =
        sqlite3_mprintf("EXPLAIN QUERY PLAN SELECT * FROM \"%w\" WHERE \"%w\" = ?1", view, id);
    if (!sql)
        return error_set_memory(strlen(view), "an SQLite statement");
    enum error error = query_names(connection, path, sql, NULL, &steps);
    sqlite3_free(sql);
    *ret_has = !error;
    for (size_t i = 0; i < steps.count; i++) {
        bool search = strncmp(steps.items[i], "SEARCH", 6) == 0;
        searches += search;
        if (strncmp(steps.items[i], "SCAN", 4) == 0 ||
            (search && !strstr(steps.items[i], "INTEGER PRIMARY KEY (rowid=?)")))
            *ret_has = false;
    }
    *ret_has &= searches > 0;
    release_names(&steps);
    return error;
}

static enum error find_row_name(struct sqlite_table *table, sqlite3 *connection, const char *path)
{
    static const char *const row_names[] = {rowid, "_rowid_", "oid"};
    enum error error = OK;
    size_t count = sizeof(row_names) / sizeof(row_names[0]);
    for (size_t i = 0; !error && !table->row_name && i < count; i++) {
        bool has;
        error = has_rowid(table, connection, path, row_names[i], &has);
        if (has)
            table->row_name = row_names[i];
    }
    return error;
}

/* How rows are found if the id column is not a key. */
static enum error choose_way(struct sqlite_table *table, sqlite3 *connection, const char *path,
                             const char *id)
{
    bool found = false;
    enum error error = OK;
    if (table->view) {
        error = view_has_key(connection, path, table->name, id, &found);
    } else {
        error = find_row_name(table, connection, path);
        found = table->row_name;
    }
    return error || found ? error : refuse_id(table, path, id, false, false);
}

/* The INTEGER PRIMARY KEY, whatever its name. */
static const char *default_id(const struct sqlite_table *table, const struct names *keys)
{
    for (size_t i = 0; i < table->count && keys->count > 0; i++) {
        if (sqlite3_stricmp(table->columns[i], keys->items[0]) == 0)
            return table->columns[i];
    }
    return NULL;
}

static enum error choose_id(struct sqlite_table *table, sqlite3 *connection, const char *path,
                            const struct column_choice *choice)
{
    struct names keys = {.items = NULL};
    bool rows = false;
    enum error error = table->view ? OK : has_rowid(table, connection, path, rowid, &rows);
    const char *id = table->key_of[COLUMN_ID];
    bool asked = !id && choice->names[COLUMN_ID] && choice->names[COLUMN_ID][0];
    bool by_row = !id && choice->names[COLUMN_ID] && rows;
    if (!error && !by_row)
        error = find_keys(connection, path, table->name, &keys);
    if (!error && !id && !choice->names[COLUMN_ID])
        id = default_id(table, &keys);
    if (!error && !by_row && !id)
        error = refuse_id(table, path, NULL, asked, rows);
    if (!error && !by_row && !find(&keys, id))
        error = choose_way(table, connection, path, id);
    if (!error)
        table->key_of[COLUMN_ID] = by_row ? rowid : id;
    release_names(&keys);
    return error;
}

/* ---- columns ------------------------------------------------------------ */

/* A column of that name hides the row numbers. */
static bool is_rowid(const char *name, const struct column_names *columns)
{
    return name && sqlite3_stricmp(name, rowid) == 0 &&
           column_names_find(columns, rowid, strlen(rowid)) == columns->count;
}

/* An imported table records the roles of its columns, unless the URI gives others. */
static void add_imported(struct column_choice *choice, const struct sqlite_facts *facts)
{
    if (facts->there)
        column_choice_imported(choice, facts->has_weight, facts->has_group, true);
}

/* Imported columns are already features. */
static enum error plan_features(struct sqlite_table *table, const struct column_choice *choice,
                                bool imported, enum column_role *roles)
{
    struct column_names names = {.names = (const char *const *)table->columns,
                                 .count = table->count};
    struct column_choice planned = *choice;
    const struct feature_recipe *recipe = choice->recipe;
    if (recipe && recipe->learner == NULL && recipe->features > 0 && imported)
        planned.recipe = NULL;
    if (planned.recipe && imported)
        return error_set(ERROR_USAGE,
                         "import made this table, whose features are numbers: missing= "
                         "and onehot= are for its source");
    return cell_plan_init(&table->plan, &planned, &names, roles);
}

static enum error keep_roles(struct sqlite_table *table, const enum column_role *roles)
{
    table->features = array_new(table->count, sizeof(char *), "feature columns");
    if (!table->features)
        return ERROR_MEMORY;
    for (size_t i = 0; i < table->count; i++) {
        if (roles[i] == COLUMN_FEATURE)
            table->features[table->feature_count++] = table->columns[i];
        else if (roles[i] > COLUMN_IGNORED)
            table->key_of[roles[i]] = table->columns[i];
    }
    return OK;
}

/* Does the URI, or the caller, say what the column is, apart from being the primary key? */
static bool is_asked_for(const struct column_choice *choice, enum column_role role,
                         const char *name)
{
    size_t i = 0;
    if (role != COLUMN_FEATURE || choice->names[COLUMN_FEATURE])
        return role != COLUMN_IGNORED && role != COLUMN_ID;
    while (i < choice->only_count && sqlite3_stricmp(choice->only[i], name) != 0)
        i++;
    return i < choice->only_count;
}

static enum error assign_roles(struct sqlite_table *table, sqlite3 *connection, const char *path,
                               struct column_choice *choice, bool imported)
{
    struct column_names names = {.names = (const char *const *)table->columns,
                                 .count = table->count};
    struct column_choice without_rowid = *choice;
    enum column_role *roles = array_new(table->count, sizeof(*roles), "the columns of a table");
    if (!roles)
        return ERROR_MEMORY;
    if (is_rowid(choice->names[COLUMN_ID], &names))
        without_rowid.names[COLUMN_ID] = ""; /* it is no column */
    enum error error = column_roles_assign(&names, &without_rowid, true, roles);
    if (error) {
        error = error_prefix(error, "%s, table \"%s\": ", path, table->name);
        goto out;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (roles[i] == COLUMN_ID)
            table->key_of[COLUMN_ID] = table->columns[i];
    }
    error = choose_id(table, connection, path, choice);
    for (size_t i = 0; i < table->count && !error; i++) {
        if (table->columns[i] == table->key_of[COLUMN_ID] &&
            !is_asked_for(choice, roles[i], names.names[i]))
            roles[i] = COLUMN_ID;
    }
    if (!error) {
        error = plan_features(table, choice, imported, roles);
        if (error)
            error = error_prefix(error, "%s, table \"%s\": ", path, table->name);
    }
    if (!error)
        error = keep_roles(table, roles);
out:
    free(roles);
    return error;
}

static enum error find_whether_view(struct sqlite_table *table, sqlite3 *connection,
                                    const char *path)
{
    struct names views = {.items = NULL};
    enum error error = query_names(connection, path, views_sql, NULL, &views);
    table->view = find(&views, table->name);
    release_names(&views);
    return error;
}

enum error sqlite_table_init(struct sqlite_table *table, sqlite3 *connection, const char *path,
                             char *name, const struct column_choice *choice,
                             struct sqlite_facts *facts)
{
    struct names columns = {.items = NULL};
    struct column_choice full = *choice;
    *table = (struct sqlite_table){.name = name};
    enum error error = find_whether_view(table, connection, path);
    if (!error)
        error = query_names(connection, path, columns_sql, name, &columns);
    table->columns = columns.items;
    table->count = columns.count;
    if (!error && !find(&columns, "features"))
        sqlite_facts_release(facts);
    add_imported(&full, facts);
    if (!error)
        error = assign_roles(table, connection, path, &full, facts->there);
    if (error)
        sqlite_table_release(table);
    return error;
}

void sqlite_table_release(struct sqlite_table *table)
{
    struct names columns = {.items = table->columns, .count = table->count};
    release_names(&columns);
    cell_plan_release(&table->plan);
    free(table->features);
    free(table->name);
    *table = (struct sqlite_table){.name = NULL};
}

/* ---- SQL ---------------------------------------------------------------- */

static void add_quoted(struct buffer *sql, const char *name)
{
    char *quoted = sqlite3_mprintf("\"%w\"", name);
    if (quoted)
        buffer_add_text(sql, quoted);
    else
        sql->error = error_set_memory(strlen(name), "an SQL statement");
    sqlite3_free(quoted);
}

/* Quoted, "rowid" would be a text if the table has no rowid; other tables have one, too. */
static void add_column(struct buffer *sql, const struct sqlite_table *table, const char *name)
{
    if (!name) {
        buffer_add_text(sql, "NULL");
    } else if (name == rowid) {
        add_quoted(sql, table->name);
        buffer_print(sql, ".%s", rowid);
    } else {
        add_quoted(sql, name);
    }
}

static void add_columns(struct buffer *sql, const struct sqlite_table *table, bool features)
{
    static const enum column_role keys[] = {COLUMN_ID, COLUMN_LABEL, COLUMN_WEIGHT, COLUMN_GROUP};
    buffer_add_text(sql, "SELECT ");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        buffer_add_text(sql, i > 0 ? ", " : "");
        add_column(sql, table, table->key_of[keys[i]]);
    }
    for (size_t i = 0; i < table->feature_count && features; i++) {
        buffer_add_text(sql, ", ");
        add_quoted(sql, table->features[i]);
    }
    if (table->row_name) {
        buffer_add_text(sql, ", ");
        add_quoted(sql, table->name);
        buffer_print(sql, ".%s", table->row_name);
    }
}

static void add_table(struct buffer *sql, const char *name, const char *index)
{
    add_quoted(sql, name);
    if (index) {
        buffer_add_text(sql, " INDEXED BY ");
        add_quoted(sql, index);
    }
}

enum error sqlite_table_select(const struct sqlite_table *table, bool features, const char *index,
                               const char *tail, char **ret_sql)
{
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    add_columns(&sql, table, features);
    for (; *tail; tail++) {
        if (*tail == '@')
            add_column(&sql, table, table->key_of[COLUMN_ID]);
        else if (*tail == '$')
            add_table(&sql, table->name, index);
        else if (*tail == '#')
            buffer_add_text(&sql, table->row_name);
        else
            buffer_add(&sql, tail, 1);
    }
    return buffer_take(&sql, ret_sql);
}
