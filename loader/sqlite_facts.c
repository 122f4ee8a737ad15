#include "loader/sqlite_facts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/text.h"
#include "loader/sqlite_file.h"

#define NAMES_LIMIT_BYTES ((size_t)64 << 20)

static const char *const element_names[] = {[ELEMENT_U8] = "u8", [ELEMENT_F32] = "f32"};
static const char *const kind_names[] = {[LABEL_NONE] = "none",
                                         [LABEL_INTEGER] = "integer",
                                         [LABEL_REAL] = "real",
                                         [LABEL_TEXT] = "text"};

/* ---- reading -----------------------------------------------------------------------------------
 */

static bool find_word(const char *const words[], size_t count, const char *text, int *ret_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], text) == 0) {
            *ret_index = (int)i;
            return true;
        }
    }
    return false;
}

static bool take_number(const char *text, int64_t *ret_value)
{
    return text_parse_integer(text, strlen(text), 0, INT64_MAX, ret_value);
}

/* The names are a JSON array of texts. */
static bool take_names(struct sqlite_facts *facts, const char *text)
{
    cJSON *json = NULL;
    if (json_parse(text, strlen(text), "feature names", &json))
        return false;
    size_t count = cJSON_IsArray(json) ? (size_t)cJSON_GetArraySize(json) : 0;
    bool right = cJSON_IsArray(json) && count == facts->features;
    if (right)
        facts->feature_names = array_new(count, sizeof(char *), "feature names");
    right = right && facts->feature_names;
    const cJSON *item = json ? json->child : NULL;
    for (size_t i = 0; right && item; i++, item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        facts->feature_names[i] = name ? strdup(name) : NULL;
        right = facts->feature_names[i] != NULL;
    }
    cJSON_Delete(json);
    return right;
}

/* One (name, value); names that are not known belong to a later version, and do no harm. */
static bool take_fact(struct sqlite_facts *facts, const char *name, const char *value,
                      int64_t *changes)
{
    int64_t number = 0;
    int word = 0;
    if (strcmp(name, "table") == 0)
        return !facts->table && (facts->table = strdup(value)) != NULL;
    if (strcmp(name, "change_counter") == 0)
        return take_number(value, changes);
    if (strcmp(name, "rows") == 0)
        return take_number(value, &facts->rows);
    if (strcmp(name, "features") == 0) {
        bool right = take_number(value, &number) && number <= 1 << 30;
        facts->features = right ? (size_t)number : 0;
        return right;
    }
    if (strcmp(name, "element") == 0) {
        bool right = find_word(element_names, 2, value, &word);
        facts->element = (enum element)word;
        return right;
    }
    if (strcmp(name, "label_kind") == 0) {
        bool right = find_word(kind_names, 4, value, &word);
        facts->label_kind = (enum label_kind)word;
        return right;
    }
    if (strcmp(name, "weight") == 0)
        return text_parse_boolean(value, strlen(value), &facts->has_weight);
    if (strcmp(name, "group") == 0)
        return text_parse_boolean(value, strlen(value), &facts->has_group);
    if (strcmp(name, "digest") == 0) {
        bool right = strlen(value) == CONTENT_DIGEST_TEXT_BYTES - 1;
        if (right)
            memcpy(facts->digest, value, sizeof(facts->digest));
        return right;
    }
    return true;
}

static enum error refuse_fact(const char *path, const char *name, const char *value)
{
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "%s is damaged: its table tombola says that \"%s\" is %s", path,
                     name, text_quote(shown, sizeof(shown), value, strlen(value)));
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

static enum error check_format(const char *path, const char *value)
{
    int64_t format = 0;
    if (!take_number(value, &format) || format < 1)
        return refuse_fact(path, "format", value);
    if (format > SQLITE_FACTS_FORMAT)
        return error_set(ERROR_INPUT,
                         "%s was imported by a later version (format %lld, this one reads up to "
                         "%d)",
                         path, (long long)format, SQLITE_FACTS_FORMAT);
    return OK;
}

/* All rows of the table tombola; the names need the number of features, so they come second. */
static enum error read_facts(struct sqlite_facts *facts, sqlite3_stmt *statement, const char *path,
                             bool names, int64_t *changes, int *ret_result)
{
    enum error error = OK;
    int result;
    while (!error && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = text_of(statement, 0);
        const char *value = text_of(statement, 1);
        bool is_names = strcmp(name, "feature_names") == 0;
        if (strcmp(name, "format") == 0)
            error = check_format(path, value);
        else if (is_names != names)
            continue;
        else if (!(names ? take_names(facts, value) : take_fact(facts, name, value, changes)))
            error = refuse_fact(path, name, value);
    }
    sqlite3_reset(statement);
    *ret_result = error ? SQLITE_DONE : result;
    return error;
}

static enum error read_all(struct sqlite_facts *facts, sqlite3 *connection, const char *path,
                           int64_t *changes)
{
    sqlite3_stmt *statement = NULL;
    int result = SQLITE_DONE;
    enum error error =
        sqlite_prepare(connection, path, "SELECT name, value FROM tombola", &statement);
    if (!error)
        error = read_facts(facts, statement, path, false, changes, &result);
    if (!error && result == SQLITE_DONE)
        error = read_facts(facts, statement, path, true, changes, &result);
    if (!error && result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    if (!error && (!facts->table || !facts->feature_names || facts->rows == 0))
        error = refuse_fact(path, facts->table ? "rows" : "table", "missing");
    sqlite3_finalize(statement);
    return error;
}

enum error sqlite_facts_read(struct sqlite_facts *facts, sqlite3 *connection, const char *path,
                             const char *table, uint32_t changes)
{
    int64_t expected = -1;
    *facts = (struct sqlite_facts){.there = false};
    if (sqlite3_table_column_metadata(connection, NULL, "tombola", "value", NULL, NULL, NULL, NULL,
                                      NULL) != SQLITE_OK)
        return OK;
    enum error error = read_all(facts, connection, path, &expected);
    if (error) {
        sqlite_facts_release(facts);
        return error;
    }
    facts->there = !table || sqlite3_stricmp(table, facts->table) == 0;
    facts->fresh = facts->there && expected == (int64_t)changes;
    if (!facts->there)
        sqlite_facts_release(facts);
    return OK;
}

void sqlite_facts_release(struct sqlite_facts *facts)
{
    for (size_t i = 0; facts->feature_names && i < facts->features; i++)
        free(facts->feature_names[i]);
    free(facts->feature_names);
    free(facts->table);
    *facts = (struct sqlite_facts){.there = false};
}

enum error sqlite_facts_read_labels(sqlite3 *connection, const char *path,
                                    struct label_dictionary *labels)
{
    sqlite3_stmt *statement = NULL;
    int result = SQLITE_DONE;
    enum error error =
        sqlite_prepare(connection, path, "SELECT label FROM tombola_labels", &statement);
    while (!error && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = text_of(statement, 0);
        error =
            label_dictionary_add(labels, text, (size_t)sqlite3_column_bytes(statement, 0), NULL);
    }
    if (!error && result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    sqlite3_finalize(statement);
    if (!error)
        label_dictionary_finish(labels);
    return error;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

struct writing {
    sqlite3 *connection;
    const char *path;
    sqlite3_stmt *statement; /* of the table that is being filled */
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
    enum error error = buffer_add_text(&names, "[");
    for (size_t i = 0; i < info->features && !error; i++) {
        if (i > 0)
            error = buffer_add_text(&names, ",");
        if (!error)
            error = json_add_string(&names, info->feature_names[i]);
    }
    if (!error)
        error = buffer_add_text(&names, "]");
    if (!error)
        error = write_text(writing, "feature_names", names.data);
    buffer_release(&names);
    return error;
}

static enum error write_facts(const struct writing *writing, const char *table,
                              const struct store_info *info, const char *digest, uint32_t changes)
{
    enum error error = write_number(writing, "format", SQLITE_FACTS_FORMAT);
    if (!error)
        error = write_text(writing, "table", table);
    if (!error)
        error = write_number(writing, "rows", info->rows);
    if (!error)
        error = write_number(writing, "features", (int64_t)info->features);
    if (!error)
        error = write_text(writing, "element", element_names[info->element]);
    if (!error)
        error = write_text(writing, "label_kind", kind_names[info->label_kind]);
    if (!error)
        error = write_text(writing, "weight", info->weight_column ? "yes" : "no");
    if (!error)
        error = write_text(writing, "group", info->group_column ? "yes" : "no");
    if (!error)
        error = write_text(writing, "digest", digest);
    if (!error)
        error = write_names(writing, info);
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

enum error sqlite_facts_write(const char *table, const struct store_info *info, const char *digest,
                              uint32_t changes, sqlite3 *connection, const char *path)
{
    struct writing writing = {.connection = connection, .path = path};
    enum error error = sqlite_run(connection, path,
                                  "CREATE TABLE tombola (name TEXT PRIMARY KEY, value);"
                                  "CREATE TABLE tombola_labels (label TEXT PRIMARY KEY)"
                                  " WITHOUT ROWID;");
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
