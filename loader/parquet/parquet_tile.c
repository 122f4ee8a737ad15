/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_tile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/column/feature.h"
#include "loader/column/feature_blob.h"

#define TILE_BYTES ((size_t)1 << 20) /* of features, unless a row has more or lengths differ */
#define NO_ITEM SIZE_MAX             /* the list as a whole is bad */

static const char what[] = "rows of a Parquet file";

struct parquet_tile *parquet_tile_new(const struct parquet_columns *columns, enum parquet_part part,
                                      enum element element)
{
    struct parquet_tile *tile = array_new(1, sizeof(*tile), what);
    if (!tile)
        return NULL;
    tile->element = element;
    tile->row_bytes = columns->features * element_bytes(element);
    tile->limit = TILE_BYTES / (tile->row_bytes + 1) + 1;
    if (tile->limit > PARQUET_TILE_ROWS)
        tile->limit = PARQUET_TILE_ROWS;
    for (size_t i = 0; i < tile->limit; i++)
        tile->begins[i] = i * tile->row_bytes;
    if (part < PARQUET_DOUBTFUL)
        return tile;
    tile->features_bytes = tile->limit * tile->row_bytes + 1; /* + 1: there may be no features */
    tile->features = array_new(tile->features_bytes, 1, what);
    if (!tile->features) {
        free(tile);
        return NULL;
    }
    return tile;
}

void parquet_tile_free(struct parquet_tile *tile)
{
    if (tile)
        free(tile->features);
    free(tile);
}

/* ---- messages ----------------------------------------------------------- */

static const char *show_value(const struct arrow_values *values, int64_t row,
                              char out[TEXT_QUOTE_BYTES])
{
    int64_t first, count;
    char room[ARROW_TEXT_BYTES];
    struct text text = {.data = NULL};
    if (!arrow_values_of_row(values, row, &first, &count))
        return "null";
    if (arrow_type_is_list(values->type))
        snprintf(out, TEXT_QUOTE_BYTES, "a list of %" PRId64 " %s", count,
                 text_plural(count, "item", "items"));
    else if (arrow_values_bytes(values, row, &text))
        snprintf(out, TEXT_QUOTE_BYTES, "%zu %s", text.length,
                 text_plural((int64_t)text.length, "byte", "bytes"));
    else if (arrow_values_text(values, row, room, &text) && values->type->kind == ARROW_TEXT)
        text_quote(out, TEXT_QUOTE_BYTES, text.data, text.length);
    else if (text.data)
        snprintf(out, TEXT_QUOTE_BYTES, "%.*s", (int)text.length, text.data);
    else
        return "null";
    return out;
}

static void refuse_value(const struct parquet_cursor *cursor, const struct parquet_column *column,
                         int64_t row, const char *wanted, const char *advice)
{
    char shown[TEXT_QUOTE_BYTES];
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    error_set(ERROR_INPUT, "%s, row %" PRId64 ": column \"%s\" is %s; %s belongs there%s",
              cursor->file.source.path, cursor->first_row + row, column->name,
              show_value(values, row, shown), wanted, advice);
}

static void refuse_item(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                        const struct parquet_column *column, int64_t row, size_t item)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    int64_t first = 0, count;
    double number = 0;
    bool known = arrow_values_of_row(values, row, &first, &count);
    char shown[32] = "null";
    arrow_values_numbers(values, first + (int64_t)item, 1, &number, &known);
    if (known)
        snprintf(shown, sizeof(shown), tile->element == ELEMENT_I32 ? "%.17g" : "%g", number);
    error_set(ERROR_INPUT, "%s, row %" PRId64 ": item %zu of column \"%s\" is %s; %s belongs there",
              cursor->file.source.path, cursor->first_row + row, item, column->name, shown,
              feature_wanted(known && isfinite(number), tile->element));
}

/* An existing row is longer or shorter than others: if the column is all features, rows may
 * differ. */
static const char *length_advice(const struct parquet_cursor *cursor,
                                 const struct parquet_column *column, bool differs)
{
    return differs && column->features == cursor->columns->features ? ROW_LIMIT_HINT : "";
}

static void refuse_blob(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                        const struct parquet_column *column, int64_t row)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    struct text bytes = {.data = NULL, .length = FEATURE_BLOB_NONE};
    bool there = arrow_values_bytes(values, row, &bytes), ragged = cursor->columns->ragged != NULL;
    size_t unit = element_bytes(tile->element);
    size_t features = ragged ? bytes.length / unit : column->features;
    bool differs = there && !ragged && bytes.length != features * unit;
    if (ragged && (!there || bytes.length % unit != 0))
        snprintf(wanted, sizeof(wanted), "a value of %s", element_things[tile->element]);
    else
        feature_blob_copy(bytes.data, bytes.length, features, tile->element, tile->features,
                          "value", wanted);
    refuse_value(cursor, column, row, wanted, length_advice(cursor, column, differs));
}

static void refuse_list(const struct parquet_cursor *cursor, const struct parquet_column *column,
                        int64_t row)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    char wanted[32];
    int64_t first, count;
    bool there = arrow_values_of_row(values, row, &first, &count);
    snprintf(wanted, sizeof(wanted), "a list of %zu", column->features);
    refuse_value(cursor, column, row, cursor->columns->ragged ? "a list" : wanted,
                 length_advice(cursor, column, there));
}

void parquet_tile_explain(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          int64_t first, size_t i)
{
    const struct parquet_column *column = tile->bad[i];
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    double number;
    bool known;
    int64_t row = first + (int64_t)i;
    if (cursor->columns->blob) {
        refuse_blob(tile, cursor, column, row);
    } else if (!arrow_type_is_list(&column->type)) {
        arrow_values_row_numbers(values, row, 1, &number, &known);
        refuse_value(cursor, column, row, feature_wanted(known && !isnan(number), tile->element),
                     column->type.kind == ARROW_TEXT && tile->element != ELEMENT_I32
                         ? "; features=A,B,C in the URI names the columns to take"
                         : "");
    } else if (tile->bad_item[i] != NO_ITEM) {
        refuse_item(tile, cursor, column, row, tile->bad_item[i]);
    } else {
        refuse_list(cursor, column, row);
    }
}

/* ---- keys --------------------------------------------------------------- */

static bool take_text(const struct arrow_values *values, int64_t row, char *room,
                      struct text *ret_text)
{
    return arrow_values_text(values, row, room, ret_text) && ret_text->length > 0 &&
           text_is_utf8(ret_text->data, ret_text->length);
}

static const char *text_wanted(const struct arrow_values *values, int64_t row,
                               const char *otherwise)
{
    char room[ARROW_TEXT_BYTES];
    struct text text = {.length = 0};
    return arrow_values_text(values, row, room, &text) && text.length > 0 ? "UTF-8 text without NUL"
                                                                          : otherwise;
}

static bool take_weight(const struct arrow_values *values, int64_t row, double *ret_weight)
{
    bool known;
    arrow_values_row_numbers(values, row, 1, ret_weight, &known);
    return known && *ret_weight >= 0 && isfinite(*ret_weight);
}

static enum error take_keys(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                            int64_t at, size_t i)
{
    struct store_row *row = &tile->rows[i];
    for (size_t k = 0; k < cursor->columns->read_count; k++) {
        const struct parquet_column *column = &cursor->columns->read[k];
        const struct arrow_values *values = &cursor->values[k];
        const char *wanted = NULL;
        if (!values->type)
            continue;
        if (column->role == COLUMN_ID &&
            !(arrow_values_integer(values, at, &row->id) && row->id >= 0))
            wanted = "an id from 0 to 9223372036854775807";
        else if (column->role == COLUMN_LABEL &&
                 !take_text(values, at, tile->texts[0][i], &row->label))
            wanted = text_wanted(values, at, "a label");
        else if (column->role == COLUMN_GROUP &&
                 !take_text(values, at, tile->texts[1][i], &row->group))
            wanted = text_wanted(values, at, "a group");
        else if (column->role == COLUMN_WEIGHT && !take_weight(values, at, &row->weight))
            wanted = WEIGHT_WANTED;
        if (wanted) {
            refuse_value(cursor, column, at, wanted, "");
            return ERROR_INPUT;
        }
    }
    return OK;
}

/* ---- features ----------------------------------------------------------- */

static void set_bad(struct parquet_tile *tile, size_t i, const struct parquet_column *column,
                    size_t item)
{
    if (tile->rows[i].status == ROW_BAD)
        return;
    tile->rows[i].status = ROW_BAD;
    tile->rows[i].length = 0;
    tile->bad[i] = column;
    tile->bad_item[i] = item;
}

static void take_numbers(struct parquet_tile *tile, const struct parquet_column *column,
                         const struct arrow_values *values, int64_t first, size_t count)
{
    double numbers[PARQUET_TILE_ROWS];
    bool known[PARQUET_TILE_ROWS];
    bool as_bytes = tile->element == ELEMENT_U8 && column->type.form == ARROW_PLAIN;
    const uint8_t *bytes = as_bytes ? arrow_values_u8(values, first) : NULL;
    if (bytes) {
        for (size_t i = 0; i < count; i++)
            tile->features[i * tile->row_bytes + column->first] = bytes[i];
        return;
    }
    arrow_values_row_numbers(values, first, count, numbers, known);
    for (size_t i = 0; i < count; i++) {
        if (tile->rows[i].status == ROW_BAD)
            continue; /* as in other kinds of store, what follows decides nothing */
        if (known[i] && feature_fits(numbers[i], tile->element))
            feature_store(numbers[i], tile->element, tile->features + i * tile->row_bytes,
                          column->first, &tile->rows[i].is_u8);
        else
            set_bad(tile, i, column, 0);
    }
}

static void take_list(struct parquet_tile *tile, const struct parquet_column *column, bool ragged,
                      const struct arrow_values *values, int64_t row, size_t i)
{
    double numbers[PARQUET_TILE_ROWS];
    bool known[PARQUET_TILE_ROWS];
    uint8_t *features = parquet_tile_row(tile, i);
    int64_t first, count;
    if (tile->rows[i].status == ROW_BAD)
        return;
    if (!arrow_values_of_row(values, row, &first, &count) ||
        (!ragged && (size_t)count != column->features)) {
        set_bad(tile, i, column, NO_ITEM);
        return;
    }
    const uint8_t *bytes = tile->element == ELEMENT_U8 ? arrow_values_u8(values, first) : NULL;
    if (bytes && count > 0)
        memcpy(features + column->first, bytes, (size_t)count);
    if (bytes)
        return;
    for (size_t done = 0; done < (size_t)count; done += PARQUET_TILE_ROWS) {
        size_t some = (size_t)count - done;
        if (some > PARQUET_TILE_ROWS)
            some = PARQUET_TILE_ROWS;
        arrow_values_numbers(values, first + (int64_t)done, some, numbers, known);
        for (size_t k = 0; k < some && tile->rows[i].status == ROW_OK; k++) {
            if (known[k] && feature_fits(numbers[k], tile->element))
                feature_store(numbers[k], tile->element, features, column->first + done + k,
                              &tile->rows[i].is_u8);
            else
                set_bad(tile, i, column, done + k);
        }
    }
}

static void take_blob(struct parquet_tile *tile, const struct parquet_column *column, bool ragged,
                      const struct arrow_values *values, int64_t row, size_t i)
{
    size_t features = ragged ? tile->rows[i].length : column->features;
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    struct text bytes = {.data = NULL, .length = FEATURE_BLOB_NONE};
    arrow_values_bytes(values, row, &bytes);
    tile->rows[i].is_u8 = tile->element != ELEMENT_F32;
    if (!feature_blob_copy(bytes.data, bytes.length, features, tile->element,
                           parquet_tile_row(tile, i), "value", wanted))
        set_bad(tile, i, column, 0);
}

/* Of a row that may differ in length; 0 for null. */
static size_t length_of(const struct arrow_values *values, int64_t row, enum element element)
{
    int64_t first, count;
    struct text bytes;
    if (values->type->kind == ARROW_BYTES)
        return arrow_values_bytes(values, row, &bytes) ? bytes.length / element_bytes(element) : 0;
    return arrow_values_of_row(values, row, &first, &count) ? (size_t)count : 0;
}

/* Makes room for rows that differ in length, one after the other. */
static enum error lay_out(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          int64_t first, size_t count)
{
    const struct parquet_columns *columns = cursor->columns;
    const struct arrow_values *values = &cursor->values[columns->ragged - columns->read];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row = first + (int64_t)i;
        size_t length = length_of(values, row, tile->element);
        if (length > columns->limit.longest)
            return error_prefix(row_limit_refuse(&columns->limit, length), "%s, row %" PRId64 ": ",
                                cursor->file.source.path, cursor->first_row + row);
        tile->rows[i].length = length;
        tile->begins[i] = bytes;
        bytes += length * element_bytes(tile->element);
    }
    return array_grow((void **)&tile->features, &tile->features_bytes, bytes, 1, what);
}

static void take_features(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          const struct parquet_column *column, int64_t first, size_t count)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    bool list = arrow_type_is_list(&column->type), ragged = cursor->columns->ragged == column;
    if (!list && !cursor->columns->blob) {
        take_numbers(tile, column, values, first, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (list)
            take_list(tile, column, ragged, values, first + (int64_t)i, i);
        else
            take_blob(tile, column, ragged, values, first + (int64_t)i, i);
    }
}

enum error parquet_tile_decode(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                               int64_t first, size_t count)
{
    const struct parquet_columns *columns = cursor->columns;
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++) {
        tile->rows[i] = store_row_fresh;
        tile->rows[i].id = cursor->first_row + first + (int64_t)i;
        error = take_keys(tile, cursor, first + (int64_t)i, i);
    }
    if (!error && columns->ragged && tile->features)
        error = lay_out(tile, cursor, first, count);
    for (size_t k = 0; k < columns->read_count && tile->features && !error; k++) {
        if (columns->read[k].role == COLUMN_FEATURE && cursor->values[k].type)
            take_features(tile, cursor, &columns->read[k], first, count);
    }
    return error;
}
