/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

const char *csv_column_text(const struct csv_columns *columns, size_t column,
                            char out[COLUMN_TEXT_BYTES])
{
    char shown[TEXT_QUOTE_BYTES];
    const char *name = columns->names[column];
    if (columns->header)
        snprintf(out, COLUMN_TEXT_BYTES, "column %s",
                 text_quote(shown, sizeof(shown), name, strlen(name)));
    else
        snprintf(out, COLUMN_TEXT_BYTES, "column %s", name);
    return out;
}

const char *csv_encoding_advice(const struct text *field)
{
    return memchr(field->data, '\0', field->length)
               ? " (NUL bytes: if it is UTF-16, iconv -f UTF-16LE -t UTF-8; else it is damaged)"
               : " (Latin-1 becomes UTF-8 by iconv -f ISO-8859-1 -t UTF-8)";
}

static enum error copy_header_name(struct csv_columns *columns, size_t column,
                                   const struct text *field)
{
    if (!text_is_utf8(field->data, field->length))
        return error_set(ERROR_INPUT, "the name of column %zu (counted from 0) is not UTF-8 text%s",
                         column, csv_encoding_advice(field));
    columns->names[column] = strndup(field->data, field->length);
    return columns->names[column] ? OK : error_set_memory(field->length, "a column's name");
}

static enum error copy_number_name(struct csv_columns *columns, size_t column)
{
    char number[TEXT_INTEGER_BYTES + 1];
    *text_write_integer(number, (int64_t)column) = '\0';
    columns->names[column] = strdup(number);
    return columns->names[column] ? OK : error_set_memory(sizeof(number), "a column's name");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One of two columns with the same name may have been named by mistake. */
static enum error refuse_double(const struct csv_columns *columns, const struct csv_splitter *first,
                                const char *name)
{
    char shown[TEXT_QUOTE_BYTES];
    for (size_t i = 0; i < columns->count; i++) {
        if (first->fields[i].length == 0 && strcmp(columns->names[i], name) == 0)
            return error_set(ERROR_INPUT,
                             "column %zu (counted from 0) has no name in the header, and its "
                             "number is the name of another column; give it a name (a file without "
                             "a header is opened with header=no)",
                             i);
    }
    return error_set(ERROR_INPUT,
                     "the header names the column %s twice (a file without a header is opened with "
                     "header=no)",
                     text_quote(shown, sizeof(shown), name, strlen(name)));
}

static enum error check_doubles(const struct csv_columns *columns, const struct csv_splitter *first)
{
    enum error error = OK;
    const char **sorted = array_new(columns->count, sizeof(*sorted), "column names");
    if (!sorted)
        return ERROR_MEMORY;
    memcpy(sorted, columns->names, columns->count * sizeof(*sorted));
    qsort(sorted, columns->count, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < columns->count && !error; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            error = refuse_double(columns, first, sorted[i]);
    }
    free(sorted);
    return error;
}

/* A file without a header that is opened as if it had one would silently lose its first row. */
static enum error check_looks_like_row(const struct csv_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        double number;
        if (!text_parse_real(columns->names[i], strlen(columns->names[i]), &number))
            return OK;
    }
    return error_set(ERROR_INPUT, "the first line holds nothing but numbers: is it a header? Say "
                                  "header=yes or header=no in the URI ('csv:PATH?header=no')");
}

static enum error make_names(struct csv_columns *columns, const struct csv_splitter *first,
                             enum csv_header header)
{
    enum error error = OK;
    for (size_t i = 0; i < columns->count && !error; i++)
        error = columns->header && first->fields[i].length > 0
                    ? copy_header_name(columns, i, &first->fields[i])
                    : copy_number_name(columns, i);
    if (!error && header == CSV_HEADER_ASSUMED)
        error = check_looks_like_row(columns);
    if (!error && columns->header)
        error = check_doubles(columns, first);
    return error;
}

/* ---- another delimiter? ------------------------------------------------- */

static const struct delimiter {
    char byte;
    const char *shown, *parameter;
} delimiters[] = {
    {'\t', "tabs", "tab"}, {';', "semicolons", ";"}, {'|', "bars", "|"}, {',', "commas", ","}};
#define DELIMITER_COUNT (sizeof(delimiters) / sizeof(delimiters[0]))

/* A first line in one piece may have been split at the wrong delimiter. NULL: unlikely. */
static const struct delimiter *find_other(const struct csv_splitter *first)
{
    const struct text *field = &first->fields[0];
    for (size_t i = 0; i < DELIMITER_COUNT && first->count == 1; i++) {
        if (delimiters[i].byte != first->delimiter &&
            memchr(field->data, delimiters[i].byte, field->length))
            return &delimiters[i];
    }
    return NULL;
}

enum error csv_columns_check_delimiter(const struct csv_splitter *first)
{
    const struct delimiter *other = find_other(first), *own = delimiters;
    if (!other)
        return OK;
    while (own->byte != first->delimiter)
        own++;
    return error_set(ERROR_INPUT,
                     "the line holds %s and no %s: say delimiter=%s in the URI "
                     "('csv:PATH?delimiter=%s'), or delimiter=%s if it is a single column",
                     other->shown, own->shown, other->parameter, other->parameter, own->parameter);
}

static enum error hint_at_delimiter(enum error error, const struct csv_splitter *first)
{
    struct error_report report;
    const struct delimiter *other = find_other(first);
    if (!other)
        return error;
    error_report_take(error, &report);
    return error_set(error, "%s; the first line holds %s: is it delimiter=%s?", report.message,
                     other->shown, other->parameter);
}

static void note_unnamed(struct csv_columns *columns, const struct csv_splitter *first)
{
    for (size_t i = 0; i < columns->count && columns->header; i++) {
        if (first->fields[i].length > 0 || columns->roles[i] != COLUMN_FEATURE)
            continue;
        if (columns->unnamed++ == 0)
            columns->first_unnamed = i;
    }
}

static enum error make_roles(struct csv_columns *columns, const struct column_choice *choice)
{
    struct column_names names = {.names = (const char *const *)columns->names,
                                 .count = columns->count};
    enum error error = column_roles_assign(&names, choice, columns->header, columns->roles);
    if (error && !columns->header)
        return error_prefix(error, "without a header, columns are numbered from 0: ");
    if (!error)
        error = cell_plan_init(&columns->plan, choice, &names, columns->roles);
    for (size_t i = 0; i < columns->count && !error; i++) {
        if (columns->roles[i] > COLUMN_IGNORED)
            columns->column_of[columns->roles[i]] = (ptrdiff_t)i;
    }
    return error;
}

/* Features of rows that differ in length have no names, and no recipe applies to them. */
static enum error check_choice(const struct column_choice *choice)
{
    enum error error = element_choice_check_numbers(&choice->element, "a CSV file");
    if (error || !row_limit_varies(&choice->limit))
        return error;
    if (choice->names[COLUMN_FEATURE])
        return error_set(ERROR_USAGE, "features= with longest=: in rows that differ in length "
                                      "every field that is not a key is a feature");
    if (choice->recipe)
        return error_set(ERROR_USAGE, "missing= or onehot= with longest=: in rows that differ in "
                                      "length, features are numbers as they stand");
    return OK;
}

/* From the columns, or from a recipe. */
static void name_features(struct csv_columns *columns)
{
    const struct cell_plan *plan = &columns->plan;
    size_t features = 0;
    bool made = plan->recipe && !cell_plan_learns(plan);
    for (size_t i = 0; i < columns->count && !made; i++) {
        if (columns->roles[i] == COLUMN_FEATURE)
            columns->feature_names[features++] = columns->names[i];
    }
    for (size_t i = 0; i < columns->features && made; i++)
        columns->feature_names[i] = plan->recipe->names[i];
}

static enum error make_runs(struct csv_columns *columns)
{
    size_t features = 0;
    bool opens =
        row_limit_varies(&columns->limit) && columns->roles[columns->count - 1] != COLUMN_FEATURE;
    for (size_t i = 0; i < columns->count; i++) {
        features += columns->roles[i] == COLUMN_FEATURE;
        columns->run_count += i == 0 || columns->roles[i] != columns->roles[i - 1];
    }
    columns->features = columns->plan.recipe ? cell_plan_features(&columns->plan) : features;
    columns->runs = array_new(columns->run_count + opens, sizeof(*columns->runs), "CSV columns");
    columns->feature_names = array_new(columns->features, sizeof(char *), "feature names");
    if (!columns->runs || !columns->feature_names)
        return ERROR_MEMORY;
    struct column_run *run = columns->runs - 1;
    for (size_t i = 0; i < columns->count; i++) {
        if (i == 0 || columns->roles[i] != columns->roles[i - 1])
            *++run = (struct column_run){.role = columns->roles[i], .first = i};
        run->count++;
        if (columns->roles[i] > COLUMN_IGNORED)
            columns->keys_end = i + 1;
    }
    if (opens)
        columns->runs[columns->run_count++] =
            (struct column_run){.role = COLUMN_FEATURE, .first = columns->count};
    name_features(columns);
    return OK;
}

enum error csv_columns_init(struct csv_columns *columns, const struct csv_splitter *first,
                            enum csv_header header, const struct column_choice *choice)
{
    *columns = (struct csv_columns){.header = header != CSV_HEADER_NO,
                                    .count = first->count,
                                    .limit = choice->limit,
                                    .element = choice->element};
    for (size_t role = 0; role < COLUMN_ROLES; role++)
        columns->column_of[role] = -1;
    enum error error = check_choice(choice);
    if (error)
        return error;
    error = ERROR_MEMORY;
    columns->names = array_new(columns->count, sizeof(*columns->names), "column names");
    columns->roles = array_new(columns->count, sizeof(*columns->roles), "CSV columns");
    if (columns->names && columns->roles)
        error = make_names(columns, first, header);
    if (!error) {
        error = make_roles(columns, choice);
        if (error == ERROR_USAGE)
            error = hint_at_delimiter(error, first);
    }
    if (!error)
        note_unnamed(columns, first);
    if (!error)
        error = make_runs(columns);
    if (error)
        csv_columns_release(columns);
    return error;
}

void csv_columns_release(struct csv_columns *columns)
{
    for (size_t i = 0; columns->names && i < columns->count; i++)
        free(columns->names[i]);
    free(columns->names);
    free(columns->roles);
    free(columns->runs);
    free(columns->feature_names);
    cell_plan_release(&columns->plan);
    *columns = (struct csv_columns){.count = 0};
}
