/*
 * The quick path never reports: whatever it does not expect it leaves to the slow path, which then
 * finds the words.
 */
#include "loader/csv_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/csv_bytes.h"

enum error csv_decoder_init(struct csv_decoder *decoder, const struct csv_columns *columns,
                            char delimiter)
{
    decoder->columns = columns;
    decoder->bytes = array_new(columns->features + CSV_BYTES_PADDING, 1, "a row of CSV");
    if (!decoder->bytes)
        return ERROR_MEMORY;
    enum error error = csv_splitter_init(&decoder->splitter, delimiter, columns->count);
    if (error)
        free(decoder->bytes);
    return error;
}

void csv_decoder_release(struct csv_decoder *decoder)
{
    csv_splitter_release(&decoder->splitter);
    free(decoder->bytes);
    decoder->bytes = NULL;
}

/* ---- quick path ------------------------------------------------------------------------------ */

static bool is_line_end(const char *at)
{
    return at[0] == '\n' || (at[0] == '\r' && at[1] == '\n');
}

/* The last field of a record: one number and the line end. */
static bool quick_last_byte(const char *at, uint8_t *out)
{
    unsigned value = (uint8_t)*at - (unsigned)'0';
    if (value > 9)
        return false;
    for (at++; !is_line_end(at); at++) {
        unsigned digit = (uint8_t)*at - (unsigned)'0';
        value = value * 10 + digit;
        if (digit > 9 || value > 255)
            return false;
    }
    *out = (uint8_t)value;
    return true;
}

/* An unquoted key field without blanks around it; returns its end, or NULL. */
static const char *quick_text(const char *at, char delimiter, struct store_text *ret_text)
{
    const char *start = at;
    unsigned char all = 0;
    while (*at != delimiter && *at != '\n' && *at != '\r') {
        all |= (unsigned char)*at;
        at++;
    }
    size_t length = (size_t)(at - start);
    if (length == 0 || all >= 0x80 || start[0] == ' ' || start[0] == '\t' || at[-1] == ' ' ||
        at[-1] == '\t' || memchr(start, '\0', length))
        return NULL;
    *ret_text = (struct store_text){.data = start, .length = length};
    return at;
}

static bool set_key(struct csv_row *row, enum column_role role, const struct store_text *text)
{
    switch (role) {
    case COLUMN_ID:
        return text_parse_integer(text->data, text->length, 0, INT64_MAX, &row->id);
    case COLUMN_LABEL:
        row->label = *text;
        return true;
    case COLUMN_GROUP:
        row->group = *text;
        return true;
    case COLUMN_WEIGHT:
        return text_parse_real(text->data, text->length, &row->weight) && row->weight >= 0;
    default:
        return true;
    }
}

static const char *quick_skip(const char *at, const char *end, size_t count, char delimiter)
{
    for (size_t i = 0; i < count && at; i++) {
        at = memchr(at, delimiter, (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return at;
}

/* One run of columns; returns what follows it, or NULL. `*features` moves on. */
static const char *quick_run(const struct csv_decoder *decoder, const struct column_run *run,
                             const char *at, const char *end, uint8_t **features,
                             struct csv_row *row)
{
    char delimiter = decoder->splitter.delimiter;
    bool last = run->first + run->count == decoder->columns->count;
    if (run->role == COLUMN_FEATURE && *features) {
        uint8_t *out = *features;
        at = csv_bytes_decode(at, end, run->count - last, delimiter, out);
        *features = out + run->count;
        return at && (!last || quick_last_byte(at, out + run->count - 1)) ? at : NULL;
    }
    if (run->role == COLUMN_FEATURE || run->role == COLUMN_IGNORED) {
        if (!last)
            return quick_skip(at, end, run->count, delimiter);
        return csv_count_bytes(at, (size_t)(end - at), delimiter) == run->count - 1 ? at : NULL;
    }
    struct store_text text;
    at = quick_text(at, delimiter, &text);
    if (!at || !set_key(row, run->role, &text))
        return NULL;
    if (last)
        return is_line_end(at) ? at : NULL;
    return *at == delimiter ? at + 1 : NULL;
}

static bool decode_quickly(const struct csv_decoder *decoder, const char *record, size_t length,
                           uint8_t *features, struct csv_row *row)
{
    const struct csv_columns *columns = decoder->columns;
    const char *at = record;
    for (size_t i = 0; i < columns->run_count && at; i++)
        at = quick_run(decoder, &columns->runs[i], at, record + length, &features, row);
    return at != NULL;
}

/* ---- slow path ------------------------------------------------------------------------------- */

static enum error refuse_field(const struct csv_decoder *decoder, size_t column, const char *wanted)
{
    char name[COLUMN_TEXT_BYTES];
    char shown[TEXT_QUOTE_BYTES];
    const struct store_text *field = &decoder->splitter.fields[column];
    csv_column_text(decoder->columns, column, name);
    if (field->length == 0)
        return error_set(ERROR_INPUT, "%s is empty; %s belongs there", name, wanted);
    return error_set(ERROR_INPUT, "%s is %s; %s belongs there", name,
                     text_quote(shown, sizeof(shown), field->data, field->length), wanted);
}

static enum error check_count(const struct csv_decoder *decoder)
{
    size_t count = decoder->splitter.count;
    size_t wanted = decoder->columns->count;
    if (count == wanted)
        return OK;
    return error_set(ERROR_INPUT, "the row has %zu field%s, the %s has %zu", count,
                     count == 1 ? "" : "s", decoder->columns->header ? "header" : "first row",
                     wanted);
}

static enum error take_key(const struct csv_decoder *decoder, size_t column, enum column_role role,
                           struct csv_row *row)
{
    static const char *const wanted[COLUMN_ROLES] = {
        [COLUMN_ID] = "an id from 0 to 9223372036854775807",
        [COLUMN_LABEL] = "a label",
        [COLUMN_WEIGHT] = "a weight, a number of at least 0,",
        [COLUMN_GROUP] = "a group",
    };
    const struct store_text *field = &decoder->splitter.fields[column];
    if (field->length == 0 || !set_key(row, role, field))
        return refuse_field(decoder, column, wanted[role]);
    if (!text_is_utf8(field->data, field->length))
        return refuse_field(decoder, column, "UTF-8 text without NUL");
    return OK;
}

/* Rows may begin at any byte. */
static void store_float(void *features, size_t feature, float value)
{
    memcpy((uint8_t *)features + feature * sizeof(value), &value, sizeof(value));
}

/* Sets ROW_BAD and the message for the row's first bad feature. */
static void take_feature(const struct csv_decoder *decoder, size_t column, enum element element,
                         void *features, size_t feature, struct csv_row *row)
{
    const struct store_text *field = &decoder->splitter.fields[column];
    double value;
    if (row->status != ROW_OK)
        return;
    bool number = text_parse_real(field->data, field->length, &value);
    if (!number || !isfinite((float)value)) {
        row->status = ROW_BAD;
        refuse_field(decoder, column, number ? "a number that fits 32-bit float" : "a number");
        return;
    }
    if (!(value >= 0 && value <= 255 && value == (double)(int)value))
        row->is_u8 = false;
    if (element == ELEMENT_F32)
        store_float(features, feature, (float)value);
    else if (row->is_u8)
        ((uint8_t *)features)[feature] = (uint8_t)value;
}

static enum error decode_slowly(struct csv_decoder *decoder, char *record, size_t length,
                                enum element element, void *features, struct csv_row *row)
{
    const struct csv_columns *columns = decoder->columns;
    size_t feature = 0;
    enum error error = csv_split(&decoder->splitter, record, length);
    if (!error)
        error = check_count(decoder);
    for (size_t i = 0; i < columns->count && !error; i++) {
        if (columns->roles[i] == COLUMN_IGNORED)
            continue;
        if (columns->roles[i] != COLUMN_FEATURE)
            error = take_key(decoder, i, columns->roles[i], row);
        else if (features)
            take_feature(decoder, i, element, features, feature++, row);
    }
    return error;
}

static void copy_bytes(const struct csv_decoder *decoder, enum element element, void *features)
{
    size_t count = decoder->columns->features;
    if (element == ELEMENT_U8) {
        memcpy(features, decoder->bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        store_float(features, i, decoder->bytes[i]);
}

enum error csv_decode_row(struct csv_decoder *decoder, char *record, size_t length, bool plain,
                          enum element element, void *features, struct csv_row *ret_row)
{
    static const struct csv_row fresh = {.id = -1,
                                         .label = {.data = ""},
                                         .group = {.data = ""},
                                         .weight = 1,
                                         .is_u8 = true,
                                         .status = ROW_OK};
    *ret_row = fresh;
    if (!plain)
        plain = !memchr(record, '"', length);
    if (plain &&
        decode_quickly(decoder, record, length, features ? decoder->bytes : NULL, ret_row)) {
        if (features)
            copy_bytes(decoder, element, features);
        return OK;
    }
    *ret_row = fresh;
    return decode_slowly(decoder, record, length, element, features, ret_row);
}
