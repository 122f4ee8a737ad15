/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "common/text_set.h"

#define FEATURES_LIMIT ((size_t)1 << 24)
#define PANDAS_INDEX "__index_level_" /* not data, unless the URI names it */

static const char *const wanted_of[COLUMN_ROLES] = {
    [COLUMN_FEATURE] = "a feature must be a number, a list of numbers, or a text that is one",
    [COLUMN_ID] = "ids must be integers",
    [COLUMN_LABEL] = "a label must be a number, a boolean or a text",
    [COLUMN_WEIGHT] = "a weight must be a number",
    [COLUMN_GROUP] = "a group must be a number, a boolean or a text",
};

/* ---- names and roles ---------------------------------------------------- */

static enum error copy_names(struct parquet_columns *columns, const struct arrow_schema *schema)
{
    columns->names = array_new((size_t)schema->child_count, sizeof(char *), "column names");
    if (!columns->names)
        return ERROR_MEMORY;
    for (; columns->count < (size_t)schema->child_count; columns->count++) {
        const char *name = schema->children[columns->count]->name;
        columns->names[columns->count] = strdup(name ? name : "");
        if (!columns->names[columns->count])
            return error_set_memory(256, "a column's name");
    }
    return OK;
}

/* A column that is read is the only one of its name: of two labels, one would be a feature. */
static enum error check_doubles(const struct parquet_columns *columns,
                                const enum column_role *roles)
{
    struct text_set names = {.count = 0};
    char shown[TEXT_QUOTE_BYTES];
    size_t *first = array_new(columns->count, sizeof(*first), "columns of a file");
    enum error error = first ? OK : ERROR_MEMORY;
    for (size_t i = 0; i < columns->count && !error; i++) {
        const char *name = columns->names[i];
        size_t count = names.count;
        uint32_t number;
        error = text_set_add(&names, name, strlen(name), &number);
        if (error)
            break;
        if (number == count)
            first[number] = i;
        else if (roles[i] != COLUMN_IGNORED || roles[first[number]] != COLUMN_IGNORED)
            error = error_set(ERROR_INPUT, "two columns are called %s; give one another name",
                              text_quote(shown, sizeof(shown), name, strlen(name)));
    }
    text_set_release(&names);
    free(first);
    return error;
}

static bool is_index(const char *name)
{
    return strncmp(name, PANDAS_INDEX, sizeof(PANDAS_INDEX) - 1) == 0;
}

static bool may_be(enum column_role role, const struct arrow_type *type)
{
    bool number = arrow_type_is_number(type), text = type->kind == ARROW_TEXT;
    switch (role) {
    case COLUMN_FEATURE:
        return number || text || (type->kind == ARROW_BYTES && !arrow_type_is_list(type));
    case COLUMN_ID:
        return (type->kind == ARROW_INTEGER || type->kind == ARROW_UNSIGNED) &&
               !arrow_type_is_list(type);
    default:
        return (number || text) && !arrow_type_is_list(type);
    }
}

static enum error add_column(struct parquet_columns *columns, int place, enum column_role role,
                             const struct arrow_schema *schema)
{
    struct parquet_column *column = &columns->read[columns->read_count];
    const char *name = columns->names[place];
    *column = (struct parquet_column){.name = name, .place = place, .role = role, .features = 1};
    arrow_type_read(&column->type, schema);
    if (!may_be(role, &column->type))
        return error_set(
            ERROR_INPUT, "column \"%s\" holds %s; %s%s", name, column->type.name, wanted_of[role],
            role == COLUMN_FEATURE ? " (features=A,B,C in the URI says which are read)" : "");
    columns->read_count++;
    if (role != COLUMN_FEATURE) {
        columns->key_of[role] = column;
        return OK;
    }
    column->varies = column->type.form == ARROW_LIST || column->type.form == ARROW_LIST64 ||
                     column->type.kind == ARROW_BYTES;
    if (column->type.form == ARROW_FIXED_LIST)
        column->features = (size_t)column->type.items;
    return OK;
}

static enum error add_columns(struct parquet_columns *columns, const struct arrow_schema *schema,
                              const struct column_choice *choice, bool keys_only)
{
    struct column_names names = {.names = (const char *const *)columns->names,
                                 .count = columns->count};
    enum column_role *roles = array_new(columns->count, sizeof(*roles), "columns of a file");
    columns->read = array_new(columns->count, sizeof(*columns->read), "columns of a file");
    enum error error = roles && columns->read ? OK : ERROR_MEMORY;
    if (!error)
        error = column_roles_assign(&names, choice, true, roles);
    if (!error)
        error = check_doubles(columns, roles);
    for (size_t i = 0; i < columns->count && !error; i++) {
        bool aside = roles[i] == COLUMN_FEATURE &&
                     (keys_only || (!choice->names[COLUMN_FEATURE] && is_index(columns->names[i])));
        if (roles[i] != COLUMN_IGNORED && !aside)
            error = add_column(columns, (int)i, roles[i], schema->children[i]);
    }
    free(roles);
    return error;
}

/* ---- bytes -------------------------------------------------------------- */

static enum error find_blob(struct parquet_columns *columns, const struct element_choice *element)
{
    const struct parquet_column *bytes = NULL;
    size_t features = 0;
    for (size_t i = 0; i < columns->read_count; i++) {
        const struct parquet_column *column = &columns->read[i];
        features += column->role == COLUMN_FEATURE;
        if (column->role == COLUMN_FEATURE && column->type.kind == ARROW_BYTES)
            bytes = column;
    }
    if (bytes && features > 1)
        return error_set(ERROR_INPUT,
                         "column \"%s\" holds bytes, next to other features; they can only be all "
                         "features of a row (features=%s in the URI)",
                         bytes->name, bytes->name);
    columns->blob = bytes != NULL;
    columns->element_told = element->told;
    columns->element = element->element;
    return bytes ? OK : element_choice_check_numbers(element, "the file");
}

/* ---- rows that differ in length ----------------------------------------- */

static enum error find_ragged(struct parquet_columns *columns)
{
    struct parquet_column *found = NULL;
    size_t features = 0;
    if (!row_limit_varies(&columns->limit))
        return OK;
    for (size_t i = 0; i < columns->read_count; i++) {
        struct parquet_column *column = &columns->read[i];
        features += column->role == COLUMN_FEATURE;
        if (column->role == COLUMN_FEATURE && (columns->blob || arrow_type_is_list(&column->type)))
            found = column;
    }
    if (!found || features > 1)
        return error_set(ERROR_USAGE,
                         "longest= is for rows whose features are one column, of lists or bytes; "
                         "features=NAME in the URI names it");
    found->features = 0;
    found->varies = columns->blob && !columns->element_told;
    columns->ragged = found;
    return OK;
}

/* ---- life --------------------------------------------------------------- */

enum error parquet_columns_init(struct parquet_columns *columns, const struct arrow_schema *schema,
                                const struct column_choice *choice, bool keys_only)
{
    *columns = (struct parquet_columns){.limit = choice->limit};
    enum error error = copy_names(columns, schema);
    if (!error)
        error = add_columns(columns, schema, choice, keys_only);
    if (!error && !keys_only)
        error = find_blob(columns, &choice->element);
    if (!error && !keys_only)
        error = find_ragged(columns);
    if (error)
        parquet_columns_release(columns);
    return error;
}

void parquet_columns_release(struct parquet_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        free(columns->names[i]);
    free(columns->names);
    free(columns->read);
    free(columns->feature_names);
    *columns = (struct parquet_columns){.names = NULL};
}

/* "x", or "x.0", "x.1", ... for a list. */
static size_t name_bytes(const struct parquet_column *column)
{
    size_t length = strlen(column->name) + 1;
    return arrow_type_is_list(&column->type) ? length + 1 + TEXT_INTEGER_BYTES : length;
}

static char *add_names(const struct parquet_columns *columns, const struct parquet_column *column,
                       char *text)
{
    size_t bytes = name_bytes(column);
    for (size_t i = 0; i < column->features; i++) {
        columns->feature_names[column->first + i] = text;
        if (arrow_type_is_list(&column->type))
            text += snprintf(text, bytes, "%s.%zu", column->name, i) + 1;
        else
            text = stpcpy(text, column->name) + 1;
    }
    return text;
}

/* A list's items may have the name of a column: two features of one name would be mistaken for each
 * other where they are matched by name. */
static enum error check_feature_names(const struct parquet_columns *columns)
{
    struct text_set names = {.count = 0};
    char shown[TEXT_QUOTE_BYTES];
    enum error error = OK;
    for (size_t i = 0; i < columns->features && !error; i++) {
        const char *name = columns->feature_names[i];
        uint32_t number;
        error = text_set_borrow(&names, name, strlen(name), &number);
        if (!error && number < i)
            error = error_set(ERROR_INPUT,
                              "two features are called %s, a list's item and a column; give one "
                              "another name, or leave one out (features=A,B,C in the URI)",
                              text_quote(shown, sizeof(shown), name, strlen(name)));
    }
    text_set_release(&names);
    return error;
}

enum error parquet_columns_finish(struct parquet_columns *columns)
{
    size_t bytes = 0, sources = 0;
    bool has_list = false;
    columns->features = 0;
    for (size_t i = 0; i < columns->read_count; i++) {
        struct parquet_column *column = &columns->read[i];
        if (column->role != COLUMN_FEATURE)
            continue;
        sources++;
        has_list |= arrow_type_is_list(&column->type);
        column->first = columns->features;
        if (column->features > FEATURES_LIMIT - columns->features)
            return error_set(ERROR_INPUT,
                             "there are more than %zu features in a row, which is the "
                             "limit",
                             FEATURES_LIMIT);
        columns->features += column->features;
        bytes += column->features * (sizeof(char *) + name_bytes(column));
    }
    columns->feature_names = columns->blob ? column_numbers_new(columns->features)
                                           : array_new(bytes, 1, "names of features");
    if (!columns->feature_names)
        return ERROR_MEMORY;
    char *text = (char *)(columns->feature_names + columns->features);
    for (size_t i = 0; i < columns->read_count && !columns->blob; i++) {
        if (columns->read[i].role == COLUMN_FEATURE)
            text = add_names(columns, &columns->read[i], text);
    }
    return has_list && sources > 1 ? check_feature_names(columns) : OK;
}
