/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_tile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/store/feature.h"
#include "loader/store/feature_blob.h"

#define TILE_BYTES ((size_t)1 << 20) /* of features, unless a row has more */

struct parquet_tile *parquet_tile_new(size_t features, enum element element)
{
    static const char what[] = "rows of a Parquet file";
    struct parquet_tile *tile = array_new(1, sizeof(*tile), what);
    if (!tile)
        return NULL;
    tile->element = element;
    tile->row_bytes = features * element_bytes(element);
    tile->limit = TILE_BYTES / (tile->row_bytes + 1) + 1;
    if (tile->limit > PARQUET_TILE_ROWS)
        tile->limit = PARQUET_TILE_ROWS;
    tile->features = features ? array_new(tile->limit, tile->row_bytes, what) : NULL;
    if (features && !tile->features) {
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
                         int64_t row, const char *wanted)
{
    char shown[TEXT_QUOTE_BYTES];
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    bool is_word = column->role == COLUMN_FEATURE && column->type.kind == ARROW_TEXT;
    error_set(ERROR_INPUT, "%s, row %" PRId64 ": column \"%s\" is %s; %s belongs there%s",
              cursor->file.source.path, cursor->first_row + row, column->name,
              show_value(values, row, shown), wanted,
              is_word ? "; features=A,B,C in the URI names the columns to take" : "");
}

static void refuse_item(const struct parquet_cursor *cursor, const struct parquet_column *column,
                        int64_t row, size_t item)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    int64_t first = 0, count;
    double number = 0;
    bool known = arrow_values_of_row(values, row, &first, &count);
    char shown[32] = "null";
    arrow_values_numbers(values, first + (int64_t)item, 1, &number, &known);
    if (known)
        snprintf(shown, sizeof(shown), "%g", number);
    error_set(ERROR_INPUT, "%s, row %" PRId64 ": item %zu of column \"%s\" is %s; %s belongs there",
              cursor->file.source.path, cursor->first_row + row, item, column->name, shown,
              feature_wanted(known && isfinite(number)));
}

void parquet_tile_explain(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          int64_t first, size_t i)
{
    const struct parquet_column *column = tile->bad[i];
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    double number;
    bool known;
    struct text bytes = {.data = NULL, .length = FEATURE_BLOB_NONE};
    int64_t row = first + (int64_t)i;
    if (cursor->columns->blob) {
        arrow_values_bytes(values, row, &bytes);
        feature_blob_copy(bytes.data, bytes.length, column->features, tile->element, tile->features,
                          "value", wanted);
        refuse_value(cursor, column, row, wanted);
    } else if (!arrow_type_is_list(&column->type)) {
        arrow_values_row_numbers(values, row, 1, &number, &known);
        refuse_value(cursor, column, row, feature_wanted(known && !isnan(number)));
    } else if (tile->bad_item[i] < column->features) {
        refuse_item(cursor, column, row, tile->bad_item[i]);
    } else {
        snprintf(wanted, sizeof(wanted), "a list of %zu", column->features);
        refuse_value(cursor, column, row, wanted);
    }
}

/* ---- keys --------------------------------------------------------------- */

static bool take_text(const struct arrow_values *values, int64_t row, char *room,
                      struct text *ret_text)
{
    return arrow_values_text(values, row, room, ret_text) && ret_text->length > 0 &&
           text_is_utf8(ret_text->data, ret_text->length);
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
            wanted = "a label";
        else if (column->role == COLUMN_GROUP &&
                 !take_text(values, at, tile->texts[1][i], &row->group))
            wanted = "a group";
        else if (column->role == COLUMN_WEIGHT && !take_weight(values, at, &row->weight))
            wanted = WEIGHT_WANTED;
        if (wanted) {
            refuse_value(cursor, column, at, wanted);
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
        if (known[i] && feature_fits(numbers[i]))
            feature_store(numbers[i], tile->element, tile->features + i * tile->row_bytes,
                          column->first, &tile->rows[i].is_u8);
        else
            set_bad(tile, i, column, 0);
    }
}

static void take_list(struct parquet_tile *tile, const struct parquet_column *column,
                      const struct arrow_values *values, int64_t row, size_t i)
{
    double numbers[PARQUET_TILE_ROWS];
    bool known[PARQUET_TILE_ROWS];
    int64_t first, count;
    if (!arrow_values_of_row(values, row, &first, &count) || (size_t)count != column->features) {
        set_bad(tile, i, column, column->features);
        return;
    }
    const uint8_t *bytes = tile->element == ELEMENT_U8 ? arrow_values_u8(values, first) : NULL;
    if (bytes) {
        memcpy(tile->features + i * tile->row_bytes + column->first, bytes, column->features);
        return;
    }
    for (size_t done = 0; done < column->features; done += PARQUET_TILE_ROWS) {
        size_t some = column->features - done;
        if (some > PARQUET_TILE_ROWS)
            some = PARQUET_TILE_ROWS;
        arrow_values_numbers(values, first + (int64_t)done, some, numbers, known);
        for (size_t k = 0; k < some; k++) {
            if (known[k] && feature_fits(numbers[k]))
                feature_store(numbers[k], tile->element, tile->features + i * tile->row_bytes,
                              column->first + done + k, &tile->rows[i].is_u8);
            else
                set_bad(tile, i, column, done + k);
        }
    }
}

static void take_blob(struct parquet_tile *tile, const struct parquet_column *column,
                      const struct arrow_values *values, int64_t row, size_t i)
{
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    struct text bytes = {.data = NULL, .length = FEATURE_BLOB_NONE};
    arrow_values_bytes(values, row, &bytes);
    tile->rows[i].is_u8 = tile->element == ELEMENT_U8;
    if (!feature_blob_copy(bytes.data, bytes.length, column->features, tile->element,
                           tile->features + i * tile->row_bytes, "value", wanted))
        set_bad(tile, i, column, 0);
}

static void take_features(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          const struct parquet_column *column, int64_t first, size_t count)
{
    const struct arrow_values *values = &cursor->values[column - cursor->columns->read];
    bool list = arrow_type_is_list(&column->type);
    if (!list && !cursor->columns->blob) {
        take_numbers(tile, column, values, first, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (list)
            take_list(tile, column, values, first + (int64_t)i, i);
        else
            take_blob(tile, column, values, first + (int64_t)i, i);
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
    for (size_t k = 0; k < columns->read_count && tile->features && !error; k++) {
        if (columns->read[k].role == COLUMN_FEATURE && cursor->values[k].type)
            take_features(tile, cursor, &columns->read[k], first, count);
    }
    return error;
}
