/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_table.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/text.h"
#include "loader/column/feature.h"

#define SQL_LIMIT_BYTES ((size_t)1 << 20)

/* OIDs of types: PostgreSQL's own never change. */
enum type {
    TYPE_BOOLEAN = 16,
    TYPE_BYTES = 17,
    TYPE_NAME = 19,
    TYPE_INTEGER_8 = 20,
    TYPE_INTEGER_2 = 21,
    TYPE_INTEGER_4 = 23,
    TYPE_TEXT = 25,
    TYPE_REAL_4 = 700,
    TYPE_REAL_8 = 701,
    TYPE_CHARACTER = 1042,
    TYPE_VARYING = 1043,
    TYPE_NUMERIC = 1700
};

void postgres_table_release(struct postgres_table *table)
{
    for (size_t i = 0; table->columns && i < table->count; i++)
        free(table->columns[i]);
    for (size_t i = 0; table->type_names && i < table->count; i++)
        free(table->type_names[i]);
    free(table->columns);
    free(table->type_names);
    free(table->types);
    free(table->identity);
    free(table->roles);
    cell_plan_release(&table->plan);
    free(table->feature_names);
    free(table->feature_forms);
    free(table->value_types);
    free(table->name);
    postgres_facts_release(&table->facts);
    *table = (struct postgres_table){.name = NULL};
}

static bool is_integer(unsigned type)
{
    return type == TYPE_INTEGER_2 || type == TYPE_INTEGER_4 || type == TYPE_INTEGER_8;
}

static bool is_float(unsigned type)
{
    return type == TYPE_REAL_4 || type == TYPE_REAL_8;
}

/* May it be NaN or infinite? */
static bool is_fraction(unsigned type)
{
    return is_float(type) || type == TYPE_NUMERIC;
}

static bool is_text(unsigned type)
{
    return type == TYPE_TEXT || type == TYPE_VARYING || type == TYPE_CHARACTER || type == TYPE_NAME;
}

/* A numeric, too: cast to float8, one that is out of its range would end the whole query. */
static bool comes_as_text(unsigned type)
{
    return is_text(type) || type == TYPE_NUMERIC;
}

/* How a number of this type is selected and received. */
static bool form_of(unsigned type, enum postgres_form *ret_form)
{
    if (is_integer(type))
        *ret_form = POSTGRES_INTEGER;
    else if (is_float(type))
        *ret_form = POSTGRES_REAL;
    else if (type == TYPE_NUMERIC)
        *ret_form = POSTGRES_NUMERIC;
    else if (type == TYPE_BOOLEAN)
        *ret_form = POSTGRES_BOOLEAN;
    else if (is_text(type))
        *ret_form = POSTGRES_TEXT;
    else
        return false;
    return true;
}

/* ---- which table -------------------------------------------------------- */

static enum error ask(const struct postgres_place *place, PGconn *connection, const char *sql,
                      const char *parameter, PGresult **ret_result)
{
    const char *const values[] = {parameter};
    if (!PQsendQueryParams(connection, sql, 1, NULL, values, NULL, NULL, 0))
        return error_set(ERROR_NETWORK, "postgresql:%s: %s", place->shown,
                         PQerrorMessage(connection));
    return postgres_answer(place, connection, PGRES_TUPLES_OK, ret_result);
}

static enum error refuse_name(const struct postgres_place *place, const char *name,
                              const PGresult *tables)
{
    char shown[TEXT_QUOTE_BYTES], list[NAME_LIST_BYTES];
    const char *names[64];
    int count = PQntuples(tables) < 64 ? PQntuples(tables) : 64;
    for (int i = 0; i < count; i++)
        names[i] = PQgetvalue(tables, i, 2);
    if (count == 0)
        return error_set(ERROR_NOT_FOUND, "postgresql:%s has no tables that this user sees",
                         place->shown);
    name_list(names, (size_t)count, list);
    if (!name)
        return error_set(ERROR_USAGE,
                         "postgresql:%s has several tables, none called samples; "
                         "table=NAME says which: %s",
                         place->shown, list);
    return error_set(ERROR_NOT_FOUND, "postgresql:%s has no table %s; there are %s", place->shown,
                     text_quote(shown, sizeof(shown), name, strlen(name)), list);
}

/* All tables and views: oid, quoted name, name for messages, visible without its schema. */
static const char tables_sql[] =
    "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname),"
    " CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END,"
    " n.nspname || '.' || c.relname "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema'"
    " AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 3";

static int find_table(const PGresult *tables, const char *name)
{
    for (int i = 0; i < PQntuples(tables); i++) {
        if (strcmp(PQgetvalue(tables, i, 2), name) == 0 ||
            strcmp(PQgetvalue(tables, i, 3), name) == 0)
            return i;
    }
    return -1;
}

static enum error choose_table(struct postgres_table *table, const struct postgres_place *place,
                               PGconn *connection, const char *name, char oid[32])
{
    PGresult *tables = NULL;
    enum error error = postgres_run(place, connection, tables_sql, PGRES_TUPLES_OK, &tables);
    if (error)
        return error;
    int found = find_table(tables, name ? name : "samples");
    if (found < 0 && !name && PQntuples(tables) == 1)
        found = 0;
    if (found < 0) {
        error = refuse_name(place, name, tables);
    } else {
        snprintf(oid, 32, "%s", PQgetvalue(tables, found, 0));
        table->oid = (unsigned)strtoul(oid, NULL, 10);
        table->name = strdup(PQgetvalue(tables, found, 1));
        error = table->name ? OK : error_set_memory(64, "a table's name");
    }
    PQclear(tables);
    return error;
}

/* ---- its columns -------------------------------------------------------- */

/* Name, type, and its name for messages. A domain's type is what it is made of, as in results. */
static const char columns_sql[] =
    "SELECT attname, (WITH RECURSIVE made AS (SELECT atttypid AS type, 0 AS depth UNION ALL"
    " SELECT t.typbasetype, depth + 1 FROM made JOIN pg_type t ON t.oid = made.type"
    " AND t.typtype = 'd') SELECT type FROM made ORDER BY depth DESC LIMIT 1),"
    " format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

static enum error read_columns(struct postgres_table *table, const struct postgres_place *place,
                               PGconn *connection, const char *oid)
{
    PGresult *result = NULL;
    enum error error = ask(place, connection, columns_sql, oid, &result);
    if (error)
        return error;
    size_t count = (size_t)PQntuples(result);
    table->columns = array_new(count, sizeof(*table->columns), "a table's columns");
    table->types = array_new(count, sizeof(*table->types), "a table's columns");
    table->roles = array_new(count, sizeof(*table->roles), "a table's columns");
    table->type_names = array_new(count, sizeof(*table->type_names), "a table's columns");
    if (!table->columns || !table->types || !table->roles || !table->type_names)
        error = ERROR_MEMORY;
    for (size_t i = 0; i < count && !error; i++) {
        table->columns[i] = strdup(PQgetvalue(result, (int)i, 0));
        table->types[i] = (unsigned)strtoul(PQgetvalue(result, (int)i, 1), NULL, 10);
        table->type_names[i] = strdup(PQgetvalue(result, (int)i, 2));
        table->count++;
        if (!table->columns[i] || !table->type_names[i])
            error = error_set_memory(64, "a column's name");
    }
    PQclear(result);
    return error;
}

static enum error look_for_key(struct postgres_table *table, const struct postgres_place *place,
                               PGconn *connection, const char *oid)
{
    PGresult *result = NULL;
    enum error error =
        ask(place, connection,
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid"
            " AND a.attnum = i.indkey[0] WHERE i.indrelid = $1::oid AND i.indisunique"
            " AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL",
            oid, &result);
    if (error)
        return error;
    for (int i = 0; i < PQntuples(result); i++)
        table->has_key |= strcmp(PQgetvalue(result, i, 0), table->format.id) == 0;
    PQclear(result);
    return OK;
}

static enum error read_facts(struct postgres_table *table, const struct postgres_place *place,
                             PGconn *connection, const char *oid)
{
    PGresult *result = NULL;
    enum error error = ask(place, connection,
                           "SELECT description FROM pg_description WHERE objoid = $1::oid"
                           " AND classoid = 'pg_class'::regclass AND objsubid = 0",
                           oid, &result);
    if (!error && PQntuples(result) > 0)
        error = postgres_facts_read(&table->facts, PQgetvalue(result, 0, 0));
    PQclear(result);
    return error ? error_prefix(error, "table %s: ", table->name) : OK;
}

static enum error refuse_type(const struct postgres_table *table, size_t column, const char *wanted)
{
    return error_set(ERROR_INPUT, "table %s: column \"%s\" is of type %s, which cannot be used: %s",
                     table->name, table->columns[column], table->type_names[column], wanted);
}

static enum error take_key(struct postgres_table *table, size_t column)
{
    struct postgres_format *format = &table->format;
    const char *name = table->columns[column];
    unsigned type = table->types[column];
    switch (table->roles[column]) {
    case COLUMN_ID:
        format->id = name;
        return is_integer(type) ? OK
                                : refuse_type(table, column, "ids are smallint, integer or bigint");
    case COLUMN_LABEL:
        format->label = name;
        format->label_form = is_float(type) ? POSTGRES_REAL : POSTGRES_TEXT;
        format->label_is_number = is_fraction(type);
        return type != TYPE_BYTES ? OK : refuse_type(table, column, "labels are numbers or texts");
    case COLUMN_GROUP:
        format->group = name;
        format->group_form = is_float(type) ? POSTGRES_REAL : POSTGRES_TEXT;
        format->group_is_number = is_fraction(type);
        return type != TYPE_BYTES ? OK : refuse_type(table, column, "groups are numbers or texts");
    case COLUMN_WEIGHT:
        format->weight = name;
        return form_of(type, &format->weight_form) && type != TYPE_BOOLEAN
                   ? OK
                   : refuse_type(table, column, "weights are numbers");
    default:
        return OK;
    }
}

/* If only keys are read, a column of a type that cannot be a feature is nobody's business. */
static enum error take_feature(struct postgres_table *table, size_t column, bool keys_only)
{
    struct postgres_format *format = &table->format;
    bool bytes = table->types[column] == TYPE_BYTES;
    enum postgres_form form = POSTGRES_BYTES;
    if (!bytes && !form_of(table->types[column], &form)) {
        table->roles[column] = COLUMN_IGNORED;
        return keys_only
                   ? OK
                   : refuse_type(table, column,
                                 "features are numbers, texts that are numbers, or one bytea");
    }
    size_t at = format->feature_columns++;
    table->feature_names[at] = table->columns[column];
    table->feature_forms[at] = form;
    format->blob = format->blob || bytes;
    return OK;
}

static enum error take_columns(struct postgres_table *table, bool keys_only)
{
    enum error error = OK;
    for (size_t i = 0; i < table->count && !error; i++) {
        error = take_key(table, i);
        if (!error && table->roles[i] == COLUMN_FEATURE)
            error = take_feature(table, i, keys_only);
    }
    if (error)
        return error;
    if (!table->format.id)
        return error_set(ERROR_USAGE,
                         "table %s has no column \"id\"; id=NAME says which one holds the ids",
                         table->name);
    if (!keys_only && table->format.blob &&
        (table->format.feature_columns > 1 || table->format.plan))
        return error_set(ERROR_USAGE,
                         "table %s has a bytea column among other features; features=NAME says "
                         "which columns hold them",
                         table->name);
    return OK;
}

/* Imported columns are already features. */
static enum error plan_features(struct postgres_table *table, const struct column_names *names,
                                const struct column_choice *choice)
{
    const struct feature_recipe *recipe = choice->recipe;
    bool is_made = recipe && !recipe->learner && recipe->features > 0;
    if (is_made && table->facts.there)
        return OK;
    if (recipe && table->facts.there)
        return error_set(ERROR_USAGE, "import made it, and its features are numbers: missing= and "
                                      "onehot= are for its source");
    enum error error = cell_plan_init(&table->plan, choice, names, table->roles);
    if (!error && table->plan.recipe)
        table->format.plan = &table->plan;
    return error;
}

static enum error assign_roles(struct postgres_table *table, const struct column_choice *choice)
{
    struct column_names names = {.names = (const char *const *)table->columns,
                                 .count = table->count};
    struct column_choice full = *choice;
    postgres_facts_choose(&table->facts, &full);
    enum error error = column_roles_assign(&names, &full, true, table->roles);
    if (!error)
        error = plan_features(table, &names, choice);
    return error ? error_prefix(error, "table %s: ", table->name) : OK;
}

/* The length of the first value, and what all of them look like; no values: 0, bytes. */
static enum error look_at_blobs(PGresult *values, bool varies, size_t *ret_bytes,
                                enum element *ret_looks)
{
    bool seen = false;
    int count = PQntuples(values);
    *ret_bytes = 0;
    *ret_looks = ELEMENT_U8;
    for (int i = 0; i < count; i++) {
        size_t bytes;
        unsigned char *blob =
            PQunescapeBytea((const unsigned char *)PQgetvalue(values, i, 0), &bytes);
        if (!blob)
            return error_set_memory(64, "a bytea");
        bool says = bytes > 0 || !varies;
        enum element look = says ? feature_looks(blob, bytes) : *ret_looks;
        *ret_looks = !seen || look == *ret_looks ? look : ELEMENT_U8;
        if (i == 0 || !seen)
            *ret_bytes = bytes;
        seen = seen || says;
        PQfreemem(blob);
    }
    return OK;
}

/* F of a blob is the first row's. `named`: it is known what the bytes hold; otherwise, read as
 * bytes, numbers would become features of number fragments. */
static enum error measure_blob(struct postgres_table *table, const struct postgres_place *place,
                               PGconn *connection, bool named)
{
    struct postgres_format *format = &table->format;
    const char *name = format->feature_names[0];
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    PGresult *result = NULL;
    size_t bytes = 0;
    enum element looks = ELEMENT_U8;
    bool varies = row_limit_varies(&format->limit);
    char *quoted = PQescapeIdentifier(connection, name, strlen(name));
    enum error error = quoted
                           ? buffer_print(&sql, "SELECT %s FROM %s WHERE %s IS NOT NULL LIMIT %d",
                                          quoted, table->name, quoted, FEATURE_LOOKS_ROWS)
                           : error_set_memory(64, "a column's name");
    if (!error)
        error = postgres_run(place, connection, sql.data, PGRES_TUPLES_OK, &result);
    if (!error)
        error = look_at_blobs(result, varies, &bytes, &looks);
    if (!error && looks != ELEMENT_U8 && !named)
        error =
            error_set(ERROR_INPUT,
                      "table %s: column \"%s\" holds bytea of %zu bytes, which " FEATURE_READINGS,
                      table->name, name, bytes, bytes / element_bytes(looks), element_things[looks],
                      bytes, element_names[looks]);
    if (!error && !varies && bytes % element_bytes(format->element) != 0)
        error = error_set(ERROR_INPUT, "table %s: column \"%s\" has %zu %s, which are not %s",
                          table->name, name, bytes, text_plural(bytes, "byte", "bytes"),
                          element_things[format->element]);
    format->features = bytes / element_bytes(format->element);
    PQclear(result);
    PQfreemem(quoted);
    buffer_release(&sql);
    return error;
}

static unsigned type_of(const struct postgres_table *table, const char *name)
{
    size_t i = 0;
    while (table->columns[i] != name)
        i++;
    return table->types[i];
}

/* The type that a number of this type is cast to. */
static unsigned selected_type(unsigned type)
{
    return comes_as_text(type) ? TYPE_TEXT : type;
}

/* Of a label or group. */
static unsigned text_type(unsigned type)
{
    return is_float(type) ? type : TYPE_TEXT;
}

/* In the order of add_values(), including its casts. */
static enum error note_types(struct postgres_table *table)
{
    const struct postgres_format *format = &table->format;
    size_t count = 0;
    unsigned *types = array_new(postgres_value_count(format, false), sizeof(*types), "a row");
    if (!types)
        return ERROR_MEMORY;
    table->value_types = types;
    types[count++] = type_of(table, format->id);
    if (format->label)
        types[count++] = text_type(type_of(table, format->label));
    if (format->weight)
        types[count++] = selected_type(type_of(table, format->weight));
    if (format->group)
        types[count++] = text_type(type_of(table, format->group));
    for (size_t i = 0; i < format->feature_columns; i++)
        types[count++] = selected_type(type_of(table, format->feature_names[i]));
    return OK;
}

static enum error check_varying(const struct postgres_table *table)
{
    const struct postgres_format *format = &table->format;
    if (!row_limit_varies(&format->limit) || (format->blob && !format->plan))
        return OK;
    return error_set(ERROR_USAGE,
                     "longest= is for rows whose features are one bytea, as they stand; table %s "
                     "has no single bytea column of features",
                     table->name);
}

static enum error check_element(struct postgres_table *table, const struct element_choice *choice)
{
    char where[80];
    if (table->format.blob)
        return OK;
    table->format.element = choice->element;
    snprintf(where, sizeof(where), "table %.70s", table->name);
    return element_choice_check_numbers(choice, where);
}

enum error postgres_table_init(struct postgres_table *table, const struct postgres_place *place,
                               PGconn *connection, const char *name,
                               const struct column_choice *choice, bool keys_only)
{
    char oid[32] = "";
    *table = (struct postgres_table){.name = NULL};
    enum error error = choose_table(table, place, connection, name, oid);
    if (!error)
        error = postgres_identify(place, connection, &table->identity);
    if (!error)
        error = read_columns(table, place, connection, oid);
    if (!error)
        error = read_facts(table, place, connection, oid);
    table->format.element = choice->element.told ? choice->element.element : table->facts.element;
    table->format.limit = row_limit_varies(&choice->limit) ? choice->limit : table->facts.limit;
    if (!error)
        error = assign_roles(table, choice);
    if (!error) {
        table->feature_names = array_new(table->count, sizeof(char *), "a table's columns");
        table->feature_forms =
            array_new(table->count, sizeof(*table->feature_forms), "a table's columns");
        table->format.feature_names = table->feature_names;
        table->format.feature_forms = table->feature_forms;
        if (!table->feature_names || !table->feature_forms)
            error = ERROR_MEMORY;
    }
    if (!error)
        error = take_columns(table, keys_only);
    if (!error)
        error = check_varying(table);
    if (!error)
        error = check_element(table, &choice->element);
    if (!error)
        error = note_types(table);
    if (!error)
        error = look_for_key(table, place, connection, oid);
    if (!error && table->format.blob && !keys_only)
        error = measure_blob(table, place, connection, choice->element.told || table->facts.there);
    else if (table->format.plan)
        table->format.features = cell_plan_features(&table->plan);
    else
        table->format.features = table->format.feature_columns;
    if (error)
        postgres_table_release(table);
    return error;
}

/* ---- SQL ---------------------------------------------------------------- */

/* Inner double quotes are doubled. */
static void add_quoted(struct buffer *sql, const char *name, const char *cast)
{
    buffer_add_text(sql, "\"");
    for (; *name; name++) {
        buffer_add(sql, name, 1);
        if (*name == '"')
            buffer_add(sql, name, 1);
    }
    buffer_print(sql, "\"%s", cast);
}

static const char *cast_of(const struct postgres_table *table, const char *name)
{
    return comes_as_text(type_of(table, name)) ? "::text" : "";
}

/* Prepends ", ". */
static void add_value(struct buffer *sql, const char *name, const char *cast)
{
    if (name) {
        buffer_add_text(sql, ", ");
        add_quoted(sql, name, cast);
    }
}

/* A label or group. */
static void add_text(const struct postgres_table *table, const char *name, struct buffer *sql)
{
    add_value(sql, name, name && is_float(type_of(table, name)) ? "" : "::text");
}

static void add_values(const struct postgres_table *table, bool keys_only, struct buffer *sql)
{
    const struct postgres_format *format = &table->format;
    add_quoted(sql, format->id, "");
    add_text(table, format->label, sql);
    if (format->weight)
        add_value(sql, format->weight, cast_of(table, format->weight));
    add_text(table, format->group, sql);
    for (size_t i = 0; i < format->feature_columns && !keys_only; i++)
        add_value(sql, format->feature_names[i], cast_of(table, format->feature_names[i]));
}

char *postgres_table_select(const struct postgres_table *table, bool keys_only, const char *before,
                            const char *tail)
{
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    char *text = NULL;
    const char *id = strstr(tail, "$id");
    buffer_print(&sql, "%sSELECT ", before);
    add_values(table, keys_only, &sql);
    buffer_print(&sql, " FROM %s", table->name);
    if (id) {
        buffer_add(&sql, tail, (size_t)(id - tail));
        add_quoted(&sql, table->format.id, "");
    }
    buffer_add_text(&sql, id ? id + 3 : tail);
    return buffer_take(&sql, &text) ? NULL : text;
}

char *postgres_table_select_length(const struct postgres_table *table)
{
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    char *text = NULL;
    buffer_add_text(&sql, "SELECT ");
    add_quoted(&sql, table->format.id, "::int8");
    buffer_add_text(&sql, ", octet_length(");
    add_quoted(&sql, table->format.feature_names[0], "");
    buffer_print(&sql, ") FROM %s WHERE ", table->name);
    add_quoted(&sql, table->format.id, " = ANY ($1::int8[])");
    return buffer_take(&sql, &text) ? NULL : text;
}

enum error postgres_table_check(const struct postgres_table *table, bool keys_only,
                                const PGresult *result)
{
    size_t count = postgres_value_count(&table->format, keys_only);
    bool same = (size_t)PQnfields(result) == count;
    for (size_t i = 0; i < count && same; i++)
        same = PQftype(result, (int)i) == table->value_types[i];
    if (!same)
        return error_set(ERROR_INPUT,
                         "table %s has changed since it was opened: its columns are of other types",
                         table->name);
    Oid oid = PQftable(result, 0); /* 0: a server that does not say */
    return oid == 0 || oid == table->oid
               ? OK
               : error_set(ERROR_INPUT,
                           "table %s has been replaced since it was opened, so its rows may be "
                           "others; a new start reads them",
                           table->name);
}
