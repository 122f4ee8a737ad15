/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "loader/column/feature.h"
#include "loader/column/feature_blob.h"
#include "loader/column/feature_recipe.h"

#define NUMBER_BYTES 40 /* for a number's text */

size_t postgres_value_count(const struct postgres_format *format, bool keys_only)
{
    return 1 + (format->label != NULL) + (format->weight != NULL) + (format->group != NULL) +
           (keys_only ? 0 : format->feature_columns);
}

/* ---- single values ------------------------------------------------------ */

static uint64_t big_endian(const struct postgres_value *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < value->length; i++)
        number = number << 8 | value->bytes[i];
    return number;
}

static bool take_integer(const struct postgres_value *value, int64_t *ret_integer)
{
    if (!value->bytes || (value->length != 2 && value->length != 4 && value->length != 8))
        return false;
    unsigned shift = 64 - 8 * (unsigned)value->length;
    *ret_integer = (int64_t)(big_endian(value) << shift) >> shift;
    return true;
}

static bool take_real(const struct postgres_value *value, double *ret_real)
{
    if (value->bytes && value->length == sizeof(float)) {
        uint32_t bits = (uint32_t)big_endian(value);
        float real;
        memcpy(&real, &bits, sizeof(real));
        *ret_real = (double)real;
        return true;
    }
    if (!value->bytes || value->length != sizeof(double))
        return false;
    uint64_t bits = big_endian(value);
    memcpy(ret_real, &bits, sizeof(bits));
    return true;
}

/* A number, also one stored as text (infinite if too large); false: not a number. */
static bool take_number(const struct postgres_value *value, enum postgres_form form,
                        double *ret_number)
{
    int64_t integer;
    switch (form) {
    case POSTGRES_INTEGER:
        if (!take_integer(value, &integer))
            return false;
        *ret_number = (double)integer;
        return true;
    case POSTGRES_REAL:
        return take_real(value, ret_number);
    case POSTGRES_BOOLEAN:
        if (!value->bytes || value->length != 1)
            return false;
        *ret_number = value->bytes[0] != 0;
        return true;
    case POSTGRES_TEXT:
        if (!value->bytes)
            return false;
        if (text_parse_real((const char *)value->bytes, value->length, ret_number))
            return true;
        *ret_number = INFINITY;
        return text_is_real((const char *)value->bytes, value->length);
    case POSTGRES_NUMERIC:
        if (!value->bytes)
            return false;
        if (!text_parse_real((const char *)value->bytes, value->length, ret_number))
            *ret_number = value->length == strlen("NaN") ? NAN : INFINITY;
        return true;
    default:
        return false;
    }
}

static enum error refuse_value(const char *column, const struct postgres_value *value,
                               enum postgres_form form, const char *wanted)
{
    char shown[TEXT_QUOTE_BYTES];
    double number = 0;
    bool is_text = form == POSTGRES_TEXT || form == POSTGRES_NUMERIC;
    if (!value->bytes)
        return error_set(ERROR_INPUT, "column \"%s\" is null; %s belongs there", column, wanted);
    if (form == POSTGRES_BYTES)
        return error_set(ERROR_INPUT, "column \"%s\" has %zu %s; %s belongs there", column,
                         value->length, text_plural(value->length, "byte", "bytes"), wanted);
    if (!is_text && take_number(value, form, &number))
        return error_set(ERROR_INPUT, "column \"%s\" is %.17g; %s belongs there", column, number,
                         wanted);
    return error_set(ERROR_INPUT, "column \"%s\" is %s; %s belongs there", column,
                     text_quote(shown, sizeof(shown), (const char *)value->bytes, value->length),
                     wanted);
}

/* ---- a row -------------------------------------------------------------- */

/* A float is written here: the server would write 1000000 as 1e+06. */
static bool take_float(const struct postgres_value *value, char room[TEXT_REAL_BYTES],
                       struct text *ret_text)
{
    double number = 0;
    if (!take_real(value, &number) || !isfinite(number))
        return false;
    ret_text->data = text_of_number(number, value->length == sizeof(float), room);
    ret_text->length = strlen(room);
    return true;
}

static bool take_text(const struct postgres_value *value, enum postgres_form form, bool is_number,
                      char room[TEXT_REAL_BYTES], struct text *ret_text)
{
    if (form == POSTGRES_REAL)
        return take_float(value, room, ret_text);
    *ret_text = (struct text){.data = (const char *)value->bytes, .length = value->length};
    return value->bytes && value->length > 0 && text_is_utf8(ret_text->data, ret_text->length) &&
           (!is_number || text_is_real(ret_text->data, ret_text->length));
}

static enum error take_keys(const struct postgres_format *format,
                            const struct postgres_value **value, struct postgres_row *ret_row)
{
    const struct postgres_value *next = *value;
    struct store_row *row = &ret_row->row;
    if (!take_integer(next, &row->id) || row->id < 0)
        return refuse_value(format->id, next, POSTGRES_INTEGER,
                            "an id from 0 to 9223372036854775807");
    next++;
    if (format->label && !take_text(next, format->label_form, format->label_is_number,
                                    ret_row->label_text, &row->label))
        return refuse_value(format->label, next, format->label_form, "a label");
    next += format->label != NULL;
    if (format->weight && (!take_number(next, format->weight_form, &row->weight) ||
                           !isfinite(row->weight) || row->weight < 0))
        return refuse_value(format->weight, next, format->weight_form, WEIGHT_WANTED);
    next += format->weight != NULL;
    if (format->group && !take_text(next, format->group_form, format->group_is_number,
                                    ret_row->group_text, &row->group))
        return refuse_value(format->group, next, format->group_form, "a group");
    *value = next + (format->group != NULL);
    return OK;
}

static void take_blob(const struct postgres_format *format, const struct postgres_value *value,
                      void *features, struct store_row *row)
{
    size_t length = value->bytes ? value->length : FEATURE_BLOB_NONE;
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    row->is_u8 = format->element != ELEMENT_F32;
    if (feature_blob_copy(value->bytes, length, format->features, format->element, features, "row",
                          wanted))
        return;
    refuse_value(format->feature_names[0], value, POSTGRES_BYTES, wanted);
    row->status = ROW_BAD;
}

/* Any whole number of features, up to the limit. */
static enum error take_varying(const struct postgres_format *format,
                               const struct postgres_value *value, void *features,
                               struct store_row *row)
{
    size_t unit = element_bytes(format->element), count = value->length / unit;
    bool whole = value->bytes && value->length % unit == 0;
    bool floats = format->element == ELEMENT_F32;
    char wanted[FEATURE_BLOB_TEXT_BYTES];
    row->is_u8 = !floats;
    if (whole && count > format->limit.longest)
        return row_limit_refuse(&format->limit, count);
    if (whole && (!floats || feature_not_finite(value->bytes, count) == count)) {
        if (count > 0 && count <= format->room)
            memcpy(features, value->bytes, value->length);
        row->length = count;
        return OK;
    }
    snprintf(wanted, sizeof(wanted), "a row of %s",
             whole ? "finite numbers" : element_things[format->element]);
    refuse_value(format->feature_names[0], value, POSTGRES_BYTES, wanted);
    row->status = ROW_BAD;
    return OK;
}

/* A value that is not a number, or does not fit; NaN is a missing one. */
static void refuse_feature(const char *column, const struct postgres_value *value,
                           enum postgres_form form, bool is_number, enum element element)
{
    const char *wanted = feature_wanted(is_number, element), *text = (const char *)value->bytes;
    char shown[TEXT_QUOTE_BYTES];
    double real = 0;
    if (form != POSTGRES_TEXT && take_number(value, form, &real) && isnan(real)) {
        error_set(ERROR_INPUT, "column \"%s\" is NaN; %s belongs there%s", column,
                  feature_wanted(false, element),
                  element == ELEMENT_I32 ? "" : feature_way_out(NULL, 0));
        return;
    }
    if (is_number || (text && form != POSTGRES_TEXT)) {
        refuse_value(column, value, form, wanted);
        return;
    }
    error_set(ERROR_INPUT, "column \"%s\" is %s; %s belongs there%s", column,
              text ? text_quote(shown, sizeof(shown), text, value->length) : "null", wanted,
              element == ELEMENT_I32 ? "" : feature_way_out(text, value->length));
}

static void take_columns(const struct postgres_format *format, const struct postgres_value *values,
                         enum element element, void *features, struct store_row *row)
{
    for (size_t i = 0; i < format->features; i++) {
        double value = 0;
        bool number = take_number(&values[i], format->feature_forms[i], &value);
        if (!number || !feature_fits(value, element)) {
            refuse_feature(format->feature_names[i], &values[i], format->feature_forms[i], number,
                           element);
            row->status = ROW_BAD;
            return;
        }
        feature_store(value, element, features, i, &row->is_u8);
    }
}

/* As one would write it: integers, and whole numbers, without a point. */
static size_t print_number(const struct postgres_value *value, enum postgres_form form,
                           double number, char room[NUMBER_BYTES])
{
    int64_t integer;
    if (form == POSTGRES_BOOLEAN)
        return (size_t)snprintf(room, NUMBER_BYTES, "%s", number != 0 ? "true" : "false");
    if (form == POSTGRES_INTEGER && take_integer(value, &integer))
        return (size_t)(text_write_integer(room, integer) - room);
    bool is_float = form == POSTGRES_REAL && value->length == sizeof(float);
    return strlen(text_of_number(number, is_float, room));
}

/* With a plan: one value. */
static bool take_cell(const struct cell_row *cells, const struct postgres_value *value,
                      enum postgres_form form, size_t at, char wanted[CELL_WANTED_BYTES])
{
    char room[NUMBER_BYTES];
    struct text text = {.data = room};
    double number = 0;
    if (!value->bytes)
        return cell_row_missing(cells, at, wanted);
    if (form == POSTGRES_TEXT)
        return cell_row_text(cells, at, (const char *)value->bytes, value->length, wanted);
    snprintf(wanted, CELL_WANTED_BYTES, "%s", feature_wanted(false, ELEMENT_F32));
    if (!take_number(value, form, &number))
        return false;
    if (cell_row_wants_text(cells, at))
        text.length = print_number(value, form, number, room);
    return cell_row_number(cells, at, number, &text, wanted);
}

static void take_cells(const struct postgres_format *format, const struct postgres_value *values,
                       void *features, struct store_row *row)
{
    const struct cell_row cells = {format->plan, format->learner, features};
    char wanted[CELL_WANTED_BYTES];
    cell_row_begin(&cells);
    row->is_u8 = false;
    for (size_t i = 0; i < format->feature_columns; i++) {
        if (take_cell(&cells, &values[i], format->feature_forms[i], i, wanted))
            continue;
        refuse_value(format->feature_names[i], &values[i], format->feature_forms[i], wanted);
        row->status = ROW_BAD;
        return;
    }
}

enum error postgres_decode_row(const struct postgres_format *format,
                               const struct postgres_value *values, enum element element,
                               void *features, struct postgres_row *ret_row)
{
    struct store_row *row = &ret_row->row;
    *row = store_row_fresh;
    enum error error = take_keys(format, &values, ret_row);
    if (error || !features)
        return error;
    if (format->plan)
        take_cells(format, values, features, row);
    else if (row_limit_varies(&format->limit))
        return take_varying(format, values, features, row);
    else if (format->blob)
        take_blob(format, values, features, row);
    else
        take_columns(format, values, element, features, row);
    return OK;
}

/* ---- COPY BINARY -------------------------------------------------------- */

static enum error cut_off(void)
{
    return error_set(ERROR_NETWORK, "the server sent a row that is cut off");
}

static bool take_int32(const uint8_t *bytes, size_t length, size_t *at, int32_t *ret_number)
{
    if (length - *at < 4)
        return false;
    struct postgres_value value = {.bytes = bytes + *at, .length = 4};
    *ret_number = (int32_t)(uint32_t)big_endian(&value);
    *at += 4;
    return true;
}

enum error postgres_copy_head(const uint8_t *bytes, size_t length, size_t *at)
{
    static const uint8_t magic[11] = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', 0xff, '\r', '\n', 0};
    int32_t flags = 0, extension = 0;
    size_t next = *at + sizeof(magic);
    if (length - *at < sizeof(magic) || memcmp(bytes + *at, magic, sizeof(magic)) != 0)
        return error_set(ERROR_NETWORK, "the server's answer does not begin as a binary COPY does");
    if (!take_int32(bytes, length, &next, &flags) ||
        !take_int32(bytes, length, &next, &extension) || extension < 0 ||
        (size_t)extension > length - next)
        return cut_off();
    if (flags != 0)
        return error_set(ERROR_NETWORK, "the server's binary COPY has flags (%d) that are unknown",
                         (int)flags);
    *at = next + (size_t)extension;
    return OK;
}

enum error postgres_copy_row(const uint8_t *bytes, size_t length, size_t *at, size_t count,
                             struct postgres_value *values, bool *ret_end)
{
    if (length - *at < 2)
        return cut_off();
    unsigned fields = (unsigned)bytes[*at] << 8 | bytes[*at + 1];
    size_t next = *at + 2;
    *ret_end = fields == 0xffff;
    *at = next;
    if (*ret_end)
        return OK;
    if (fields != count)
        return error_set(ERROR_NETWORK, "the server sent a row of %u %s, but asked for were %zu",
                         fields, text_plural(fields, "value", "values"), count);
    for (size_t i = 0; i < count; i++) {
        int32_t bytes_of = 0;
        if (!take_int32(bytes, length, &next, &bytes_of) || bytes_of < -1 ||
            (bytes_of > 0 && (size_t)bytes_of > length - next))
            return cut_off();
        values[i] = (struct postgres_value){.bytes = bytes_of < 0 ? NULL : bytes + next,
                                            .length = bytes_of < 0 ? 0 : (size_t)bytes_of};
        next += values[i].length;
    }
    *at = next;
    return OK;
}
