/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_facts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/text.h"
#include "loader/sqlite/sqlite_file.h"

#define FEATURES_LIMIT (1 << 30)
#define NAMES_LIMIT_BYTES ((size_t)64 << 20)

/* ---- reading ------------------------------------------------------------ */

struct reading {
    struct sqlite_facts *facts;
    sqlite3 *connection;
    const char *path;
    sqlite3_stmt *statement; /* the value of a name */
};

static const char value_sql[] = "SELECT value FROM tombola WHERE name = ?2 || ?1 COLLATE NOCASE";

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

static enum error refuse_fact(const struct reading *reading, const char *name, const char *value)
{
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "%s is damaged: its table tombola says that \"%s\" is %s",
                     reading->path, name, text_quote(shown, sizeof(shown), value, strlen(value)));
}

/* Borrowed until the next fact is read. */
static enum error read_text(const struct reading *reading, const char *name, const char **ret_value)
{
    sqlite3_reset(reading->statement);
    int result = sqlite3_bind_text(reading->statement, 1, name, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(reading->statement);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return sqlite_refuse(reading->connection, result, reading->path, "read it");
    *ret_value = result == SQLITE_ROW ? text_of(reading->statement, 0) : "";
    return sqlite_check_values(reading->statement);
}

static enum error read_number(const struct reading *reading, const char *name, int64_t minimum,
                              int64_t maximum, int64_t *ret_value)
{
    const char *value = "";
    enum error error = read_text(reading, name, &value);
    if (!error && !text_parse_integer(value, strlen(value), minimum, maximum, ret_value))
        error = refuse_fact(reading, name, value);
    return error;
}

static enum error read_word(const struct reading *reading, const char *name,
                            const char *const words[], size_t count, size_t *ret_index)
{
    const char *value = "";
    enum error error = read_text(reading, name, &value);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], value) == 0) {
            *ret_index = i;
            return OK;
        }
    }
    return refuse_fact(reading, name, value);
}

static enum error read_flag(const struct reading *reading, const char *name, bool *ret_flag)
{
    static const char *const words[] = {"no", "yes"};
    size_t index = 0;
    enum error error = read_word(reading, name, words, 2, &index);
    if (!error)
        *ret_flag = index == 1;
    return error;
}

static enum error copy_text(const char *text, char **ret_copy)
{
    *ret_copy = strdup(text);
    return *ret_copy ? OK : error_set_memory(strlen(text), "what is noted in an SQLite file");
}

/* A JSON array of as many texts as there are features. */
static enum error take_names(const struct reading *reading, const cJSON *json, const char *text)
{
    struct sqlite_facts *facts = reading->facts;
    size_t count = row_limit_varies(&facts->limit) ? 0 : facts->features;
    if (!cJSON_IsArray(json) || (size_t)cJSON_GetArraySize(json) != count)
        return refuse_fact(reading, "feature_names", text);
    facts->feature_names = array_new(count, sizeof(char *), "feature names");
    if (!facts->feature_names)
        return ERROR_MEMORY;
    enum error error = OK;
    const cJSON *item = json->child;
    for (size_t i = 0; item && !error; i++, item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        error = name ? copy_text(name, &facts->feature_names[i])
                     : refuse_fact(reading, "feature_names", text);
    }
    return error;
}

static enum error read_names(const struct reading *reading)
{
    const char *text = "";
    cJSON *json = NULL;
    enum error error = read_text(reading, "feature_names", &text);
    if (error)
        return error;
    error = json_parse(text, strlen(text), "feature names", &json);
    if (!error)
        error = take_names(reading, json, text);
    else if (error != ERROR_MEMORY)
        error = refuse_fact(reading, "feature_names", text);
    cJSON_Delete(json);
    return error;
}

static enum error read_digest(const struct reading *reading)
{
    const char *text = "";
    enum error error = read_text(reading, "digest", &text);
    if (error)
        return error;
    if (strlen(text) != CONTENT_DIGEST_TEXT_BYTES - 1)
        return refuse_fact(reading, "digest", text);
    memcpy(reading->facts->digest, text, CONTENT_DIGEST_TEXT_BYTES);
    return OK;
}

/* Most tables have none. */
static enum error read_recipe(const struct reading *reading)
{
    const char *text = "";
    enum error error = read_text(reading, "recipe", &text);
    if (error || !text[0])
        return error;
    error = feature_recipe_parse(text, "its table tombola: \"recipe\"", &reading->facts->recipe);
    return error == ERROR_INPUT ? error_prefix(error, "%s is damaged: ", reading->path) : error;
}

static enum error read_format(const struct reading *reading, int64_t *ret_format)
{
    int64_t format = 0;
    enum error error = read_number(reading, "format", 1, INT64_MAX, &format);
    *ret_format = format;
    if (!error && format > SQLITE_FACTS_FORMAT)
        error = error_set(ERROR_INPUT,
                          "%s was imported by a later version (format %lld, this one reads up to "
                          "%d)",
                          reading->path, (long long)format, SQLITE_FACTS_FORMAT);
    return error;
}

/* For a table whose rows differ in length. */
static enum error read_lengths(const struct reading *reading)
{
    static const char *const words[] = {"any", "limited"};
    struct sqlite_facts *facts = reading->facts;
    int64_t longest = 0, elements = 0;
    size_t word = 0;
    enum error error = read_word(reading, "lengths", words, 2, &word);
    if (!error)
        error = read_number(reading, "longest", 0, (int64_t)facts->features, &longest);
    if (!error)
        error = read_number(reading, "elements", 0, INT64_MAX, &elements);
    facts->limit = word == 1 ? (struct row_limit){LENGTHS_LIMITED, facts->features}
                             : (struct row_limit){LENGTHS_VARY, ROW_LIMIT_MOST};
    facts->longest = (size_t)longest;
    facts->elements = (uint64_t)elements;
    return error;
}

static enum error read_shape(const struct reading *reading)
{
    struct sqlite_facts *facts = reading->facts;
    int64_t features = 0;
    size_t element = 0;
    size_t kind = 0;
    enum error error = read_number(reading, "rows", 1, INT64_MAX, &facts->rows);
    if (!error)
        error = read_number(reading, "features", 0, FEATURES_LIMIT, &features);
    if (!error)
        error = read_word(reading, "element", element_names, ELEMENTS, &element);
    if (!error)
        error = read_word(reading, "label_kind", label_kind_names, 4, &kind);
    facts->features = (size_t)features;
    facts->element = (enum element)element;
    facts->label_kind = (enum label_kind)kind;
    return error;
}

/* Chooses whose facts to read: those of the last imported table, or of another one by its name,
 * which prefixes their names. *ret_there: there are some. */
static enum error choose_table(const struct reading *reading, const char *wanted, bool *ret_there)
{
    struct sqlite_facts *facts = reading->facts;
    const char *table = "";
    sqlite3_bind_text(reading->statement, 2, "", -1, SQLITE_STATIC);
    enum error error = read_text(reading, "table", &table);
    if (!error && !table[0])
        error = refuse_fact(reading, "table", table);
    facts->is_last = !error && (!wanted || sqlite3_stricmp(wanted, table) == 0);
    if (!error && !facts->is_last) {
        char *prefix = sqlite3_mprintf("%s/", wanted);
        if (!prefix)
            return error_set_memory(strlen(wanted), "a table's name");
        sqlite3_reset(reading->statement);
        sqlite3_bind_text(reading->statement, 2, prefix, -1, sqlite3_free);
        error = read_text(reading, "table", &table);
    }
    *ret_there = !error && table[0];
    return *ret_there ? copy_text(table, &facts->table) : error;
}

static enum error read_all(const struct reading *reading, int64_t *ret_changes)
{
    struct sqlite_facts *facts = reading->facts;
    int64_t format;
    enum error error = read_format(reading, &format);
    if (!error)
        error = read_shape(reading);
    if (!error && format > 1)
        error = read_lengths(reading);
    if (!error)
        error = read_flag(reading, "weight", &facts->has_weight);
    if (!error)
        error = read_flag(reading, "group", &facts->has_group);
    if (!error)
        error = read_names(reading);
    if (!error)
        error = read_digest(reading);
    if (!error)
        error = read_recipe(reading);
    if (!error)
        error = read_number(reading, "change_counter", 0, UINT32_MAX, ret_changes);
    return error;
}

enum error sqlite_facts_read(struct sqlite_facts *facts, sqlite3 *connection, const char *path,
                             const char *table, uint32_t changes)
{
    int64_t expected = -1;
    *facts = (struct sqlite_facts){.there = false};
    int result = sqlite3_table_column_metadata(connection, NULL, "tombola", "value", NULL, NULL,
                                               NULL, NULL, NULL);
    if (result == SQLITE_ERROR) /* no such table or column */
        return OK;
    if (result != SQLITE_OK)
        return sqlite_refuse(connection, result, path, "read it");
    struct reading reading = {.facts = facts, .connection = connection, .path = path};
    bool there = false;
    enum error error = sqlite_prepare(connection, path, value_sql, &reading.statement);
    if (!error)
        error = choose_table(&reading, table, &there);
    if (!error && there)
        error = read_all(&reading, &expected);
    sqlite3_finalize(reading.statement);
    if (error) {
        sqlite_facts_release(facts);
        return error;
    }
    facts->there = there;
    facts->fresh = there && expected == (int64_t)changes;
    return OK;
}

void sqlite_facts_release(struct sqlite_facts *facts)
{
    size_t names = row_limit_varies(&facts->limit) ? 0 : facts->features;
    for (size_t i = 0; facts->feature_names && i < names; i++)
        free(facts->feature_names[i]);
    free(facts->feature_names);
    feature_recipe_free(facts->recipe);
    free(facts->table);
    *facts = (struct sqlite_facts){.there = false};
}

enum error sqlite_facts_read_labels(const struct sqlite_facts *facts, sqlite3 *connection,
                                    const char *path, struct label_dictionary *labels)
{
    sqlite3_stmt *statement = NULL;
    int result = SQLITE_DONE;
    enum error error =
        sqlite_prepare(connection, path,
                       facts->is_last ? "SELECT label FROM tombola_labels"
                                      : "SELECT value FROM json_each((SELECT value FROM tombola"
                                        " WHERE name = ?1 || '/labels' COLLATE NOCASE))",
                       &statement);
    if (!error && !facts->is_last)
        sqlite3_bind_text(statement, 1, facts->table, -1, SQLITE_STATIC);
    while (!error && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = text_of(statement, 0);
        size_t length = (size_t)sqlite3_column_bytes(statement, 0);
        error = sqlite_check_values(statement);
        if (!error)
            error = text_set_add(&labels->found, text, length, NULL);
    }
    if (!error && result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    sqlite3_finalize(statement);
    if (!error)
        label_dictionary_finish(labels);
    return error;
}

/* ---- writing ------------------------------------------------------------ */

struct writing {
    sqlite3 *connection;
    const char *path;
    sqlite3_stmt *statement; /* fills the current table */
};

static enum error write_step(const struct writing *writing)
{
    int result = sqlite3_step(writing->statement);
    sqlite3_reset(writing->statement);
    return result == SQLITE_DONE
               ? OK
               : sqlite_refuse(writing->connection, result, writing->path, "write it");
}

static enum error write_text(const struct writing *writing, const char *name, const char *value)
{
    sqlite3_bind_text(writing->statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(writing->statement, 2, value, -1, SQLITE_STATIC);
    return write_step(writing);
}

static enum error write_number(const struct writing *writing, const char *name, int64_t value)
{
    sqlite3_bind_text(writing->statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(writing->statement, 2, value);
    return write_step(writing);
}

static enum error write_names(const struct writing *writing, const struct store_info *info)
{
    struct buffer names = BUFFER_INIT(NAMES_LIMIT_BYTES);
    enum error error =
        json_add_strings(&names, info->feature_names, info->feature_names ? info->features : 0);
    if (!error)
        error = write_text(writing, "feature_names", names.data);
    buffer_release(&names);
    return error;
}

static enum error write_recipe(const struct writing *writing, const struct store_info *info)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = feature_recipe_print(info->recipe, &text);
    if (!error)
        error = write_text(writing, "recipe", text.data);
    buffer_release(&text);
    return error;
}

static enum error write_lengths(const struct writing *writing, const struct store_info *info)
{
    if (info->lengths == LENGTHS_ALIKE)
        return OK;
    enum error error =
        write_text(writing, "lengths", info->lengths == LENGTHS_LIMITED ? "limited" : "any");
    if (!error)
        error = write_number(writing, "longest", (int64_t)info->longest);
    return error ? error : write_number(writing, "elements", (int64_t)info->elements);
}

static enum error write_facts(const struct writing *writing, const char *table,
                              const struct store_info *info, const char *digest, uint32_t changes)
{
    enum error error = write_number(writing, "format", info->lengths == LENGTHS_ALIKE ? 1 : 2);
    if (!error)
        error = write_text(writing, "table", table);
    if (!error)
        error = write_number(writing, "rows", info->rows);
    if (!error)
        error = write_number(writing, "features", (int64_t)info->features);
    if (!error)
        error = write_lengths(writing, info);
    if (!error)
        error = write_text(writing, "element", element_names[info->element]);
    if (!error)
        error = write_text(writing, "label_kind", label_kind_names[info->label_kind]);
    if (!error)
        error = write_text(writing, "weight", info->weight_column ? "yes" : "no");
    if (!error)
        error = write_text(writing, "group", info->group_column ? "yes" : "no");
    if (!error)
        error = write_text(writing, "digest", digest);
    if (!error)
        error = write_names(writing, info);
    if (!error && info->recipe)
        error = write_recipe(writing, info);
    if (!error)
        error = write_number(writing, "change_counter", changes);
    return error;
}

static enum error write_labels(const struct writing *writing, const struct store_info *info)
{
    enum error error = OK;
    for (size_t i = 0; i < info->label_text_count && !error; i++) {
        sqlite3_bind_text(writing->statement, 1, info->label_texts[i], -1, SQLITE_STATIC);
        error = write_step(writing);
    }
    return error;
}

/* Removes existing facts of `table`; those of the last table so far, if another one, get its name
 * as a prefix. */
static enum error make_room(const char *table, uint32_t before, uint32_t changes,
                            sqlite3 *connection, const char *path)
{
    char *sql = sqlite3_mprintf(
        "CREATE TABLE IF NOT EXISTS tombola (name TEXT PRIMARY KEY, value);"
        "CREATE TABLE IF NOT EXISTS tombola_labels (label TEXT PRIMARY KEY) WITHOUT ROWID;"
        "UPDATE tombola SET value = CASE value WHEN %u THEN %u ELSE 0 END"
        " WHERE name = 'change_counter' OR name LIKE '%%/change_counter';"
        "DELETE FROM tombola WHERE substr(name, 1, length(%Q) + 1) = %Q || '/' COLLATE NOCASE"
        " AND instr(substr(name, length(%Q) + 2), '/') = 0;"
        "INSERT INTO tombola SELECT 'labels', json_group_array(label) FROM tombola_labels;"
        "UPDATE tombola SET name = (SELECT value FROM tombola WHERE name = 'table') || '/' || name"
        " WHERE instr(name, '/') = 0 AND EXISTS (SELECT 1 FROM tombola WHERE name = 'table'"
        " AND value <> %Q COLLATE NOCASE);"
        "DELETE FROM tombola WHERE instr(name, '/') = 0;"
        "DELETE FROM tombola_labels;",
        before, changes, table, table, table, table);
    enum error error =
        sql ? sqlite_run(connection, path, sql) : error_set_memory(1024, "an SQLite statement");
    sqlite3_free(sql);
    return error;
}

enum error sqlite_facts_write(const char *table, const struct store_info *info, const char *digest,
                              uint32_t before, uint32_t changes, sqlite3 *connection,
                              const char *path)
{
    struct writing writing = {.connection = connection, .path = path};
    enum error error = make_room(table, before, changes, connection, path);
    if (!error)
        error = sqlite_prepare(connection, path, "INSERT INTO tombola VALUES (?1, ?2)",
                               &writing.statement);
    if (!error)
        error = write_facts(&writing, table, info, digest, changes);
    sqlite3_finalize(writing.statement);
    writing.statement = NULL;
    if (!error)
        error = sqlite_prepare(connection, path, "INSERT INTO tombola_labels VALUES (?1)",
                               &writing.statement);
    if (!error)
        error = write_labels(&writing, info);
    sqlite3_finalize(writing.statement);
    return error;
}
