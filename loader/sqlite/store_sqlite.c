/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/store_sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/column/feature.h"
#include "loader/sqlite/sqlite_file.h"
#include "loader/sqlite/sqlite_vfs.h"
#include "loader/store/store_kinds.h"

/* Parameters of the URI, borrowed from it. */
struct request {
    const char *table;
    struct column_choice choice;
};

static enum error read_uri(struct uri *uri, const struct read_options *options,
                           struct request *request)
{
    request->table = uri_query_get(&uri->query, "table");
    column_choice_read(&request->choice, uri, options);
    enum error error = row_limit_read(&request->choice.limit, uri);
    if (!error)
        error = element_choice_read(&request->choice.element, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    return error ? error_prefix(error, "%s: ", uri->path) : OK;
}

/* ---- the table's layout of features ------------------------------------- */

/* A query with one result row; *ret_statement is on it, or NULL if there is none. Frees `sql`, of
 * sqlite3_mprintf(), which may have failed. */
static enum error query_row(sqlite3 *connection, const char *path, char *sql,
                            sqlite3_stmt **ret_statement)
{
    sqlite3_stmt *statement = NULL;
    *ret_statement = NULL;
    if (!sql)
        return error_set_memory(256, "an SQLite statement");
    enum error error = sqlite_prepare(connection, path, sql, &statement);
    sqlite3_free(sql);
    int result = error ? SQLITE_DONE : sqlite3_step(statement);
    if (!error && result != SQLITE_ROW && result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    if (error || result == SQLITE_DONE) {
        sqlite3_finalize(statement);
        statement = NULL;
    }
    *ret_statement = statement;
    return error;
}

/* It is unknown what the BLOBs of `bytes` bytes hold, and read as bytes, numbers would become
 * features of number fragments. */
static enum error refuse_numbers(struct sqlite_store *store, sqlite3 *connection, size_t bytes)
{
    const char *name = store->table.features[0];
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" WHERE \"%w\" IS NOT NULL LIMIT %d", name,
                                store->table.name, name, FEATURE_LOOKS_ROWS);
    if (!sql)
        return error_set_memory(256, "an SQLite statement");
    enum error error = sqlite_prepare(connection, store->path, sql, &statement);
    enum element looks = ELEMENT_U8;
    bool alike = !error, seen = false;
    while (alike && sqlite3_step(statement) == SQLITE_ROW) {
        const void *blob = sqlite3_column_blob(statement, 0);
        size_t length = (size_t)sqlite3_column_bytes(statement, 0);
        if (length == 0 && row_limit_varies(&store->format.limit))
            continue; /* no information */
        enum element look = feature_looks(blob, length);
        alike = look != ELEMENT_U8 && (!seen || look == looks);
        looks = look;
        seen = true;
        bytes = length;
    }
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    if (!alike || !seen)
        return error;
    return error_set(ERROR_INPUT,
                     "%s: column \"%s\" holds BLOBs of %zu bytes, which " FEATURE_READINGS,
                     store->path, name, bytes, bytes / element_bytes(looks), element_things[looks],
                     bytes, element_names[looks]);
}

/* A single feature column of BLOBs is split into its elements, as many as its first value has. */
static enum error find_blob(struct sqlite_store *store, sqlite3 *connection,
                            const struct request *request)
{
    struct sqlite_format *format = &store->format;
    const struct element_choice *element = &request->choice.element;
    const char *name = store->table.features[0];
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT typeof(\"%w\"), length(\"%w\") FROM \"%w\" WHERE \"%w\" "
                                "IS NOT NULL LIMIT 1",
                                name, name, store->table.name, name);
    enum error error = query_row(connection, store->path, sql, &statement);
    if (!error && !statement) /* without a value, only the URI says what it would be */
        format->blob =
            row_limit_varies(&format->limit) || (element->told && element->element != ELEMENT_I32);
    if (error || !statement)
        return error;
    const char *type = (const char *)sqlite3_column_text(statement, 0);
    size_t bytes = (size_t)sqlite3_column_int64(statement, 1);
    error = sqlite_check_values(statement);
    format->blob = !error && strcmp(type, "blob") == 0;
    sqlite3_finalize(statement);
    if (!format->blob)
        return error;
    if (element->told)
        format->element = element->element;
    else if (store->facts.there)
        format->element = store->facts.element;
    else if (!store->keys_only)
        error = refuse_numbers(store, connection, bytes);
    if (error || row_limit_varies(&format->limit))
        return error;
    if (bytes % element_bytes(format->element) != 0)
        return error_set(
            ERROR_INPUT,
            "%s: column \"%s\" of table \"%s\" holds BLOBs of %zu %s, which are not %s",
            store->path, store->table.features[0], store->table.name, bytes,
            text_plural(bytes, "byte", "bytes"), element_things[format->element]);
    format->features = bytes / element_bytes(format->element);
    return OK;
}

/* For an imported table, unless the URI gives it. */
static enum error find_limit(struct sqlite_store *store, const struct request *request)
{
    store->format.limit = request->choice.limit;
    if (!row_limit_varies(&store->format.limit))
        store->format.limit = store->facts.limit;
    if (row_limit_varies(&store->format.limit) && store->table.plan.recipe)
        return error_set(ERROR_USAGE,
                         "%s: missing= or onehot= with longest=: in rows that differ in length, "
                         "features are numbers as they stand",
                         store->path);
    return OK;
}

static enum error check_varying(const struct sqlite_store *store)
{
    if (!row_limit_varies(&store->format.limit) || store->format.blob)
        return OK;
    return error_set(ERROR_USAGE,
                     "%s: longest= is for rows whose features are one BLOB; table \"%s\" has no "
                     "single BLOB column of features",
                     store->path, store->table.name);
}

static enum error check_element(struct sqlite_store *store, const struct element_choice *choice)
{
    char where[TEXT_QUOTE_BYTES + 8];
    if (store->format.blob)
        return OK;
    store->format.element = choice->element;
    snprintf(where, sizeof(where), "table \"%.100s\"", store->table.name);
    enum error error = element_choice_check_numbers(choice, where);
    return error ? error_prefix(error, "%s: ", store->path) : OK;
}

static enum error find_format(struct sqlite_store *store, sqlite3 *connection,
                              const struct request *request)
{
    struct sqlite_format *format = &store->format;
    format->table = &store->table;
    format->features = store->table.feature_count;
    enum error error = find_limit(store, request);
    if (error)
        return error;
    if (store->table.plan.recipe)
        format->features = cell_plan_features(&store->table.plan);
    else if (store->table.feature_count == 1)
        error = find_blob(store, connection, request);
    if (!error)
        error = check_element(store, &request->choice.element);
    if (!error)
        error = check_varying(store);
    if (error || row_limit_varies(&format->limit))
        return error;
    bool named = store->facts.there && store->facts.features == format->features;
    if (error || !format->blob || named)
        return error;
    store->numbers = column_numbers_new(format->features);
    return store->numbers ? OK : ERROR_MEMORY;
}

/* ---- opening ------------------------------------------------------------ */

static bool is_key(const struct sqlite_store *store, enum column_role role, const char *name)
{
    const char *key = store->table.key_of[role];
    return name ? key && sqlite3_stricmp(key, name) == 0 : !key;
}

/* Are its rows made of the imported columns, so that the recorded digest is theirs unless the table
 * was written to? */
static bool has_imported_columns(const struct sqlite_store *store)
{
    const struct sqlite_facts *facts = &store->facts;
    return facts->there && !store->table.view && is_key(store, COLUMN_ID, "id") &&
           is_key(store, COLUMN_LABEL, facts->label_kind == LABEL_NONE ? NULL : "label") &&
           is_key(store, COLUMN_WEIGHT, facts->has_weight ? "weight" : NULL) &&
           is_key(store, COLUMN_GROUP, facts->has_group ? "group" : NULL) && store->format.blob &&
           store->format.element == facts->element;
}

/* Is the table used exactly as imported, so that the recorded facts apply? */
static bool is_as_imported(const struct sqlite_store *store)
{
    const struct sqlite_facts *facts = &store->facts;
    return facts->fresh && has_imported_columns(store) && !store->table.row_name &&
           store->format.limit.lengths == facts->limit.lengths &&
           store->format.limit.longest == facts->limit.longest &&
           (row_limit_varies(&facts->limit) || store->format.features == facts->features);
}

/* Without a key rows are sorted: only ids and row numbers, which then lead to the features. A row
 * that is missing because the table is damaged comes without id, and is refused. */
static enum error make_row_statements(struct sqlite_store *store)
{
    static const char by_row[] = " FROM $ WHERE # = ?1";
    static const char all[] = " FROM (SELECT # AS \"tombola row\" FROM $ ORDER BY @, # LIMIT -1) "
                              "LEFT JOIN $ ON $.# = \"tombola row\"";
    static const char keys[] = " FROM $ ORDER BY @, #";
    enum error error = sqlite_table_select(&store->table, true, NULL, by_row, &store->fetch_sql);
    if (!error)
        error = sqlite_table_select(&store->table, true, NULL, all, &store->scan_sql);
    if (!error)
        error = sqlite_table_select(&store->table, false, NULL, keys, &store->keys_sql);
    return error;
}

/* Reads a BLOB's length without the BLOB. */
static enum error make_length_statement(struct sqlite_store *store)
{
    const struct sqlite_table *table = &store->table;
    const char *feature = table->features[0], *id = table->key_of[COLUMN_ID];
    char *key = table->row_name            ? sqlite3_mprintf("%s", table->row_name)
                : strcmp(id, "rowid") == 0 ? sqlite3_mprintf("rowid")
                                           : sqlite3_mprintf("\"%w\"", id);
    char *sql = key ? sqlite3_mprintf("SELECT CASE typeof(\"%w\") WHEN 'blob' THEN length(\"%w\") "
                                      "ELSE 0 END FROM \"%w\" WHERE %s = ?1",
                                      feature, feature, table->name, key)
                    : NULL;
    store->length_sql = sql ? strdup(sql) : NULL;
    sqlite3_free(sql);
    sqlite3_free(key);
    return store->length_sql ? OK : error_set_memory(256, "an SQLite statement");
}

/* The only one of a table that is as import made it, whatever its name. free() it; NULL: there is
 * none. */
static enum error find_key_index(const struct sqlite_store *store, sqlite3 *connection,
                                 char **ret_index)
{
    const char *name = store->table.name;
    sqlite3_stmt *statement = NULL;
    *ret_index = NULL;
    char *sql = sqlite3_mprintf("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name "
                                "COLLATE NOCASE = '%q'",
                                name);
    enum error error = query_row(connection, store->path, sql, &statement);
    if (error || !statement)
        return error;
    *ret_index = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return *ret_index ? OK : error_set_memory(strlen(name), "an index's name");
}

static enum error make_statements(struct sqlite_store *store, sqlite3 *connection)
{
    static const char by_id[] = " FROM $ WHERE @ = ?1";
    static const char by_range[] = " FROM $ WHERE @ BETWEEN ?1 AND ?2 ORDER BY @";
    static const char in_order[] = " FROM $ ORDER BY @";
    if (store->table.row_name)
        return make_row_statements(store);
    char *index = NULL;
    enum error error = OK;
    if (is_as_imported(store))
        error = find_key_index(store, connection, &index);
    if (!error)
        error = sqlite_table_select(&store->table, true, NULL, by_id, &store->fetch_sql);
    if (!error)
        error = sqlite_table_select(&store->table, true, NULL, by_range, &store->run_sql);
    if (!error)
        error = sqlite_table_select(&store->table, true, NULL, in_order, &store->scan_sql);
    if (!error)
        error = sqlite_table_select(&store->table, false, index, in_order, &store->keys_sql);
    free(index);
    return error;
}

static enum error take_facts(struct sqlite_store *store, sqlite3 *connection)
{
    store->store.info.rows = store->facts.rows;
    store->store.info.element = store->facts.element;
    store->store.info.longest = store->facts.longest;
    store->store.info.elements = store->facts.elements;
    store->labels.kind = store->facts.label_kind;
    if (store->labels.kind != LABEL_TEXT)
        return OK;
    return sqlite_facts_read_labels(&store->facts, connection, store->path, &store->labels);
}

static enum error count_rows(struct sqlite_store *store, sqlite3 *connection)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM \"%w\"", store->table.name);
    enum error error = query_row(connection, store->path, sql, &statement);
    if (error)
        return error;
    store->store.info.rows = statement ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    store->labels.kind = store->table.key_of[COLUMN_LABEL] ? LABEL_TEXT : LABEL_NONE;
    return OK;
}

/* A statement's columns are the four keys, the features, and perhaps the row's number. */
static enum error check_width(const struct sqlite_store *store, sqlite3 *connection)
{
    int keys = 4 + (store->table.row_name != NULL);
    int most = sqlite3_limit(connection, SQLITE_LIMIT_COLUMN, -1) - keys;
    if (store->keys_only || store->table.feature_count <= (size_t)most)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s: table \"%s\" has %zu columns of features, and SQLite reads at most %d at "
                     "once; features=A,B,C in the URI names the columns to take",
                     store->path, store->table.name, store->table.feature_count, most);
}

/* The table (by default the one imported last, if it exists), and what import recorded of it. */
static enum error find_table(struct sqlite_store *store, sqlite3 *connection, const char *wanted,
                             uint32_t changes, char **ret_name)
{
    struct sqlite_facts *facts = &store->facts;
    char *name = NULL;
    enum error error = sqlite_facts_read(facts, connection, store->path, wanted, changes);
    if (!error)
        error = sqlite_table_find(connection, store->path, wanted, facts, &name);
    if (!error && facts->there && sqlite3_stricmp(facts->table, name) != 0) {
        sqlite_facts_release(facts);
        error = sqlite_facts_read(facts, connection, store->path, name, changes);
    }
    if (error)
        free(name);
    else
        *ret_name = name;
    return error;
}

static enum error look(struct sqlite_store *store, sqlite3 *connection,
                       const struct request *request, uint32_t changes)
{
    char *name = NULL;
    enum error error = find_table(store, connection, request->table, changes, &name);
    if (!error)
        error = sqlite_table_init(&store->table, connection, store->path, name, &request->choice,
                                  &store->facts);
    if (!error)
        error = check_width(store, connection);
    if (!error)
        error = find_format(store, connection, request);
    if (!error)
        error = make_statements(store, connection);
    if (!error && row_limit_varies(&store->format.limit))
        error = make_length_statement(store);
    if (error)
        return error;
    if (is_as_imported(store))
        return take_facts(store, connection);
    if (cell_plan_learns(&store->table.plan))
        return sqlite_store_learn(store);
    return store->keys_only ? count_rows(store, connection) : sqlite_store_inspect(store);
}

/* Could a column hold labels, if the URI named it? An imported table records its labels, if any. */
static bool has_label_choice(const struct sqlite_store *store, const struct request *request)
{
    return !store->table.key_of[COLUMN_LABEL] && !request->choice.names[COLUMN_LABEL] &&
           store->table.feature_count > 0 && !store->format.blob && !store->facts.there;
}

static void describe(struct sqlite_store *store, const struct request *request)
{
    struct store_info *info = &store->store.info;
    const struct row_limit *limit = &store->format.limit;
    info->lengths = limit->lengths;
    if (row_limit_varies(limit)) {
        store->format.room = info->longest;
        store->format.features = row_limit_features(limit, info->longest);
    }
    info->features = store->keys_only ? 0 : store->format.features;
    info->label_kind = store->labels.kind;
    info->id_column = store->table.key_of[COLUMN_ID];
    info->label_column = store->table.key_of[COLUMN_LABEL];
    info->weight_column = store->table.key_of[COLUMN_WEIGHT];
    info->group_column = store->table.key_of[COLUMN_GROUP];
    const struct feature_recipe *made = store->table.plan.recipe;
    info->recipe = made ? store->table.plan.recipe : store->facts.recipe;
    if (row_limit_varies(limit))
        info->feature_names = NULL;
    else if (made && !made->learner)
        info->feature_names = (const char *const *)made->names;
    else if (!store->format.blob)
        info->feature_names = store->table.features;
    else if (store->numbers)
        info->feature_names = store->numbers;
    else
        info->feature_names = (const char *const *)store->facts.feature_names;
    if (has_label_choice(store, request)) {
        info->label_choices = (const char *const *)store->table.columns;
        info->label_choice_count = store->table.count;
    }
    info->label_texts = store->labels.texts;
    info->label_text_count = store->labels.count;
    info->first_bad_row = store->first_bad_row;
    info->table = store->table.name;
    info->database = store->path;
    info->digest =
        has_imported_columns(store) && store->facts.digest[0] ? store->facts.digest : NULL;
    info->digest_may_be_old = !store->facts.fresh;
}

static void sqlite_store_close(struct store *base)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    free(store->numbers);
    label_dictionary_release(&store->labels);
    sqlite_facts_release(&store->facts);
    sqlite_table_release(&store->table);
    id_index_release(&store->ids);
    free(store->row_numbers);
    free(store->length_sql);
    free(store->fetch_sql);
    free(store->run_sql);
    free(store->scan_sql);
    free(store->keys_sql);
    free(store->first_bad_row);
    free(store->path);
    free(store);
}

static enum error open_file(struct sqlite_store *store, const struct request *request)
{
    sqlite3 *connection = NULL;
    uint32_t changes = 0;
    enum error error = sqlite_connect(store->path, NULL, &connection);
    if (error)
        return error;
    struct source_file *file = sqlite_vfs_file(connection);
    store->identity = file->identity;
    error = sqlite_file_check(file, &changes);
    if (!error)
        error = look(store, connection, request, changes);
    if (!error)
        error = source_file_check(file);
    sqlite3_close(connection);
    return error;
}

static enum error sqlite_store_open(struct uri *uri, const struct read_options *options,
                                    struct store **ret_store)
{
    struct request request;
    struct sqlite_store *store = array_new(1, sizeof(*store), "an SQLite store");
    if (!store)
        return ERROR_MEMORY;
    store->keys_only = options->keys_only;
    store->path = strdup(uri->path);
    enum error error = store->path ? OK : error_set_memory(strlen(uri->path), "a file's name");
    if (!error)
        error = read_uri(uri, options, &request);
    if (!error)
        error = open_file(store, &request);
    if (!error && store->store.info.rows == 0)
        error = error_set_kind(
            error_set(ERROR_INPUT, "%s: table \"%s\" has no rows; a store needs at least one unit",
                      store->path, store->table.name),
            STORE_WITHOUT_ROWS);
    if (error) {
        sqlite_store_close(&store->store);
        return error;
    }
    describe(store, &request);
    *ret_store = &store->store;
    return OK;
}

static enum error sqlite_store_other_files(const char *path, struct uri_query *query,
                                           store_file_sink *add, void *context)
{
    (void)query;
    return sqlite_journals(path, add, context);
}

const struct store_ops store_sqlite_ops = {
    .scheme = "sqlite",
    .endings = ".sqlite|.sqlite3|.db",
    .takes_recipe = true,
    .open = sqlite_store_open,
    .other_files = sqlite_store_other_files,
    .close = sqlite_store_close,
    .scan = sqlite_store_scan,
    .reader_open = sqlite_reader_open,
    .reader_close = sqlite_reader_close,
    .fetch = sqlite_reader_fetch,
    .has_run = sqlite_reader_has_run,
    .measure = sqlite_reader_measure,
};
