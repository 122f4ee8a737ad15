/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "loader/column/feature.h"
#include "loader/column/feature_blob.h"
#include "loader/column/feature_recipe.h"
#include "loader/sqlite/sqlite_file.h"

enum { ID_AT, LABEL_AT, WEIGHT_AT, GROUP_AT, FEATURES_AT }; /* columns of the statement */

/* ---- messages ----------------------------------------------------------- */

static const char *show_value(sqlite3_stmt *statement, int column, char out[TEXT_QUOTE_BYTES])
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return "NULL";
    case SQLITE_BLOB: {
        int bytes = sqlite3_column_bytes(statement, column);
        snprintf(out, TEXT_QUOTE_BYTES, "a BLOB of %d %s", bytes,
                 text_plural(bytes, "byte", "bytes"));
        return out;
    }
    default: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        size_t length = (size_t)sqlite3_column_bytes(statement, column);
        return text_quote(out, TEXT_QUOTE_BYTES, text ? text : "", text ? length : 0);
    }
    }
}

static enum error refuse_value(sqlite3_stmt *statement, int column, const char *name,
                               const char *wanted)
{
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "column \"%s\" is %s; %s belongs there", name,
                     show_value(statement, column, shown), wanted);
}

/* ---- keys --------------------------------------------------------------- */

/* A label or group as text; false: not one. */
static bool take_text(sqlite3_stmt *statement, int column, char room[SQLITE_ROW_TEXT_BYTES],
                      struct text *ret_text)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        ret_text->length =
            (size_t)(text_write_integer(room, sqlite3_column_int64(statement, column)) - room);
        ret_text->data = room;
        return true;
    case SQLITE_FLOAT:
        ret_text->data = text_of_number(sqlite3_column_double(statement, column), false, room);
        ret_text->length = strlen(room);
        return isfinite(sqlite3_column_double(statement, column));
    case SQLITE_TEXT:
        ret_text->data = (const char *)sqlite3_column_text(statement, column);
        ret_text->length = (size_t)sqlite3_column_bytes(statement, column);
        return ret_text->data && ret_text->length > 0 &&
               text_is_utf8(ret_text->data, ret_text->length);
    default:
        return false;
    }
}

/* A number, also one stored as text (infinite if too large); false: not a number. */
static bool take_number(sqlite3_stmt *statement, int column, double *ret_value)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        *ret_value = (double)sqlite3_column_int64(statement, column);
        return true;
    case SQLITE_FLOAT:
        *ret_value = sqlite3_column_double(statement, column);
        return true;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        size_t length = (size_t)sqlite3_column_bytes(statement, column);
        if (text && text_parse_real(text, length, ret_value))
            return true;
        *ret_value = INFINITY;
        return text && text_is_real(text, length);
    }
    default:
        return false;
    }
}

static const char *text_wanted(sqlite3_stmt *statement, int column, const char *what)
{
    bool is_text = sqlite3_column_type(statement, column) == SQLITE_TEXT;
    return is_text && sqlite3_column_bytes(statement, column) > 0 ? "UTF-8 text without NUL" : what;
}

static enum error take_id(const struct sqlite_table *table, sqlite3_stmt *statement,
                          int64_t *ret_id)
{
    bool integer = sqlite3_column_type(statement, ID_AT) == SQLITE_INTEGER;
    int64_t id = sqlite3_column_int64(statement, ID_AT);
    if (sqlite3_column_type(statement, ID_AT) == SQLITE_TEXT) {
        char shown[TEXT_QUOTE_BYTES];
        return error_set(ERROR_INPUT,
                         "column \"%s\" holds the text %s; integers from 0 to "
                         "9223372036854775807 belong there, kept as INTEGER and not as TEXT",
                         table->key_of[COLUMN_ID], show_value(statement, ID_AT, shown));
    }
    if (!integer || id < 0)
        return refuse_value(statement, ID_AT, table->key_of[COLUMN_ID],
                            "an id from 0 to 9223372036854775807");
    *ret_id = id;
    return OK;
}

static enum error take_keys(const struct sqlite_table *table, sqlite3_stmt *statement,
                            struct sqlite_row *ret_row)
{
    struct store_row *row = &ret_row->row;
    const char *label = table->key_of[COLUMN_LABEL];
    const char *weight = table->key_of[COLUMN_WEIGHT];
    const char *group = table->key_of[COLUMN_GROUP];
    enum error error = take_id(table, statement, &row->id);
    if (error)
        return error;
    if (label && !take_text(statement, LABEL_AT, ret_row->label_text, &row->label))
        return refuse_value(statement, LABEL_AT, label,
                            text_wanted(statement, LABEL_AT, "a label"));
    if (group && !take_text(statement, GROUP_AT, ret_row->group_text, &row->group))
        return refuse_value(statement, GROUP_AT, group,
                            text_wanted(statement, GROUP_AT, "a group"));
    if (weight && (!take_number(statement, WEIGHT_AT, &row->weight) || row->weight < 0 ||
                   !isfinite(row->weight)))
        return refuse_value(statement, WEIGHT_AT, weight, WEIGHT_WANTED);
    return OK;
}

/* ---- features ----------------------------------------------------------- */

/* A value that is not a number, or does not fit. */
static void refuse_feature(sqlite3_stmt *statement, int column, const char *name, bool is_number,
                           enum element element)
{
    int type = sqlite3_column_type(statement, column);
    bool is_text = type == SQLITE_TEXT; /* only then: SQLite would convert a BLOB to text */
    const char *text = is_text ? (const char *)sqlite3_column_text(statement, column) : NULL;
    size_t length = is_text ? (size_t)sqlite3_column_bytes(statement, column) : 0;
    bool has_way_out = !is_number && (is_text || type == SQLITE_NULL) && element != ELEMENT_I32;
    char shown[TEXT_QUOTE_BYTES];
    error_set(ERROR_INPUT, "column \"%s\" is %s; %s belongs there%s", name,
              show_value(statement, column, shown), feature_wanted(is_number, element),
              has_way_out ? feature_way_out(text, length) : "");
}

static void take_blob(const struct sqlite_format *format, sqlite3_stmt *statement, void *features,
                      struct store_row *row)
{
    bool is_blob = sqlite3_column_type(statement, FEATURES_AT) == SQLITE_BLOB;
    const void *bytes = sqlite3_column_blob(statement, FEATURES_AT); /* NULL: no memory, or empty */
    size_t length = (size_t)sqlite3_column_bytes(statement, FEATURES_AT);
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    row->is_u8 = format->element != ELEMENT_F32;
    if (feature_blob_copy(bytes, is_blob ? length : FEATURE_BLOB_NONE, format->features,
                          format->element, features, "BLOB", wanted))
        return;
    refuse_value(statement, FEATURES_AT, format->table->features[0], wanted);
    row->status = ROW_BAD;
}

/* Any whole number of features, up to the limit. */
static enum error take_varying(const struct sqlite_format *format, sqlite3_stmt *statement,
                               void *features, struct store_row *row)
{
    const void *bytes = sqlite3_column_blob(statement, FEATURES_AT);
    size_t length = (size_t)sqlite3_column_bytes(statement, FEATURES_AT);
    size_t unit = element_bytes(format->element), count = length / unit;
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    bool is_blob = sqlite3_column_type(statement, FEATURES_AT) == SQLITE_BLOB;
    row->is_u8 = format->element != ELEMENT_F32;
    if (is_blob && count > format->limit.longest)
        return row_limit_refuse(&format->limit, count);
    if (is_blob &&
        feature_blob_copy(count <= format->room ? bytes : NULL, length, count, format->element,
                          features, "BLOB", wanted) &&
        (count <= format->room || format->element != ELEMENT_F32 || !bytes ||
         feature_not_finite(bytes, count) == count)) {
        row->length = count;
        return OK;
    }
    if (!is_blob || length % unit != 0)
        snprintf(wanted, sizeof(wanted), "a BLOB of %s", element_things[format->element]);
    else
        snprintf(wanted, sizeof(wanted), "a BLOB of finite numbers");
    refuse_value(statement, FEATURES_AT, format->table->features[0], wanted);
    row->status = ROW_BAD;
    return OK;
}

static void take_columns(const struct sqlite_format *format, sqlite3_stmt *statement,
                         enum element element, void *features, struct store_row *row)
{
    for (size_t i = 0; i < format->features; i++) {
        double value = 0;
        int column = FEATURES_AT + (int)i;
        bool number = take_number(statement, column, &value);
        if (!number || !feature_fits(value, element)) {
            refuse_feature(statement, column, format->table->features[i], number, element);
            row->status = ROW_BAD;
            return;
        }
        feature_store(value, element, features, i, &row->is_u8);
    }
}

/* The same with a plan: one value. */
static bool take_cell(const struct cell_row *cells, sqlite3_stmt *statement, int column, size_t at,
                      char wanted[CELL_WANTED_BYTES])
{
    char room[SQLITE_ROW_TEXT_BYTES];
    struct text text = {.data = ""};
    double value = 0;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return cell_row_missing(cells, at, wanted);
    case SQLITE_TEXT:
        text.data = (const char *)sqlite3_column_text(statement, column);
        text.length = (size_t)sqlite3_column_bytes(statement, column);
        return !text.data || cell_row_text(cells, at, text.data, text.length, wanted);
    case SQLITE_BLOB:
        snprintf(wanted, CELL_WANTED_BYTES, "a number or a text");
        return cells->learner != NULL;
    default:
        take_number(statement, column, &value);
        if (cell_row_wants_text(cells, at))
            take_text(statement, column, room, &text);
        return cell_row_number(cells, at, value, &text, wanted);
    }
}

static void take_cells(const struct sqlite_format *format, sqlite3_stmt *statement, void *features,
                       struct store_row *row)
{
    const struct cell_row cells = {&format->table->plan, format->learner, features};
    char wanted[CELL_WANTED_BYTES];
    cell_row_begin(&cells);
    row->is_u8 = false;
    for (size_t i = 0; i < format->table->feature_count; i++) {
        int column = FEATURES_AT + (int)i;
        if (take_cell(&cells, statement, column, i, wanted))
            continue;
        refuse_value(statement, column, format->table->features[i], wanted);
        row->status = ROW_BAD;
        return;
    }
}

static enum error decode(const struct sqlite_format *format, sqlite3_stmt *statement,
                         enum element element, void *features, struct sqlite_row *ret_row)
{
    ret_row->row = store_row_fresh;
    enum error error = take_keys(format->table, statement, ret_row);
    if (error || !features)
        return error;
    if (format->table->plan.recipe)
        take_cells(format, statement, features, &ret_row->row);
    else if (row_limit_varies(&format->limit))
        return take_varying(format, statement, features, &ret_row->row);
    else if (format->blob)
        take_blob(format, statement, features, &ret_row->row);
    else
        take_columns(format, statement, element, features, &ret_row->row);
    return OK;
}

enum error sqlite_decode_row(const struct sqlite_format *format, sqlite3_stmt *statement,
                             enum element element, void *features, struct sqlite_row *ret_row)
{
    enum error error = decode(format, statement, element, features, ret_row);
    enum error of_values = sqlite_check_values(statement);
    return of_values ? of_values : error;
}
