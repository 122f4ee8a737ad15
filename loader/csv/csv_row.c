/* SPDX-License-Identifier: MIT */
/*
 * The fast path never reports errors: it leaves whatever it does not expect to the slow path, which
 * then describes the error.
 */
#include "loader/csv/csv_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/column/cell_plan.h"
#include "loader/column/feature.h"
#include "loader/column/feature_recipe.h"
#include "loader/csv/csv_bytes.h"
#include "loader/csv/csv_floats.h"

enum error csv_decoder_init(struct csv_decoder *decoder, const struct csv_columns *columns,
                            char delimiter)
{
    decoder->columns = columns;
    decoder->learner = NULL;
    decoder->most = columns->limit.longest;
    decoder->bytes_capacity = columns->features;
    decoder->bytes = array_new(columns->features, 1, "a row of CSV");
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

#define NEAR_BYTES 16 /* a loop finds nearer bytes faster than memchr() */

/* ---- fast path ---------------------------------------------------------- */

/* What follows the line end at `at`; NULL: there is none. */
static const char *quick_line_end(const char *at)
{
    at += *at == '\r';
    return *at == '\n' ? at + 1 : NULL;
}

/* Is it certainly UTF-8 without NUL? */
static bool is_ascii(const char *text, size_t length)
{
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++)
        all |= (unsigned char)text[i];
    return all < 0x80 && !memchr(text, '\0', length);
}

/* What follows the next quote after the opening one at `at`: not a delimiter if the field contains
 * quotes. NULL: there is no quote. */
static const char *quick_quoted(const char *at, const char *end)
{
    const char *closing = at + 1;
    const char *near = end - closing > NEAR_BYTES ? closing + NEAR_BYTES : end;
    while (closing < near && *closing != '"')
        closing++;
    if (closing == near)
        closing = memchr(closing, '"', (size_t)(end - closing));
    return closing ? closing + 1 : NULL;
}

/* A key field in quotes, or without blanks around it; returns its end, or NULL. */
static const char *quick_text(const char *at, const char *end, char delimiter,
                              struct text *ret_text)
{
    const char *start = at;
    if (*at == '"') {
        at = quick_quoted(at, end);
        if (!at)
            return NULL;
        *ret_text = (struct text){.data = start + 1, .length = (size_t)(at - start - 2)};
    } else {
        while (*at != delimiter && *at != '\n' && *at != '\r' && *at != '"')
            at++;
        *ret_text = (struct text){.data = start, .length = (size_t)(at - start)};
        if (at > start && (start[0] == ' ' || start[0] == '\t' || at[-1] == ' ' || at[-1] == '\t'))
            return NULL;
    }
    return ret_text->length > 0 && is_ascii(ret_text->data, ret_text->length) ? at : NULL;
}

static bool set_key(struct store_row *row, enum column_role role, const struct text *text)
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

/* A record being parsed. */
struct quick {
    const struct csv_decoder *decoder;
    const char *end;      /* after the record's LF; the block's end if it is plain */
    bool plain;           /* there is no quote */
    size_t fields;        /* of the record */
    enum element element; /* of the features */
    uint8_t *features;    /* where to write the next one; NULL: they are skipped */
    struct store_row *row;
};

/* Skips fields that are not parsed and hold no quote; returns what follows the delimiter after
 * them, or the line end, or NULL. */
static const char *quick_skip_plain(const struct quick *quick, const char *at, size_t count,
                                    bool is_last)
{
    char delimiter = quick->decoder->splitter.delimiter;
    const char *line_end = memchr(at, '\n', (size_t)(quick->end - at));
    const char *from = at;
    if (is_last) {
        line_end -= line_end > at && line_end[-1] == '\r';
        at = csv_count_bytes(at, (size_t)(line_end - at), delimiter) == count - 1 ? line_end : NULL;
    }
    for (size_t i = 0; i < count && at && !is_last; i++) {
        at = memchr(at, delimiter, (size_t)(line_end - at));
        at = at ? at + 1 : NULL;
    }
    return at && !memchr(from, '\r', (size_t)(at - from)) ? at : NULL;
}

/* The same, quoted or not. */
static const char *quick_skip(const struct quick *quick, const char *at, size_t count, bool is_last)
{
    char delimiter = quick->decoder->splitter.delimiter;
    if (quick->plain)
        return quick_skip_plain(quick, at, count, is_last);
    for (size_t i = 0; i < count; i++) {
        at += i > 0;
        if (*at == '"')
            at = quick_quoted(at, quick->end);
        else
            while (*at != delimiter && *at != '\n' && *at != '\r' && *at != '"')
                at++;
        if (!at || (*at != delimiter && !(is_last && i + 1 == count)))
            return NULL;
    }
    return is_last ? at : at + 1;
}

/* Integers first, then numbers of any form. */
static size_t quick_floats(const struct quick *quick, const char **at, size_t count, char delimiter)
{
    uint8_t *bytes = quick->decoder->bytes;
    size_t integers = csv_bytes_decode(at, count, delimiter, bytes);
    for (size_t i = 0; i < integers; i++) { /* rows may begin at any byte */
        float value = bytes[i];
        memcpy(quick->features + i * sizeof(value), &value, sizeof(value));
    }
    if (integers == count)
        return count;
    return integers + csv_floats_decode(at, count - integers, delimiter,
                                        quick->features + integers * sizeof(float),
                                        &quick->row->is_u8);
}

/* 32-bit integers of up to ten digits. The record's LF ends the last of them. */
static size_t quick_integers(const struct quick *quick, const char **at, size_t count,
                             char delimiter)
{
    const char *field = *at;
    size_t done = 0;
    for (; done < count; done++) {
        bool minus = *field == '-';
        const char *first = field + minus, *next = first;
        int64_t value = 0;
        while (*next >= '0' && *next <= '9' && next - first < 10)
            value = 10 * value + (*next++ - '0');
        value = minus ? -value : value;
        int32_t whole = (int32_t)value;
        if (next == first || *next != delimiter || whole != value)
            break;
        memcpy(quick->features + done * sizeof(whole), &whole, sizeof(whole));
        field = next + 1;
    }
    *at = field;
    return done;
}

static size_t quick_decode(const struct quick *quick, const char **at, size_t count, char delimiter)
{
    switch (quick->element) {
    case ELEMENT_F32:
        return quick_floats(quick, at, count, delimiter);
    case ELEMENT_I32:
        return quick_integers(quick, at, count, delimiter);
    case ELEMENT_U8:
        break;
    }
    return csv_bytes_decode(at, count, delimiter, quick->features);
}

/* `count` features, each followed by `delimiter`. */
static bool quick_numbers(struct quick *quick, const char **at, size_t count, char delimiter)
{
    size_t done = quick_decode(quick, at, count, delimiter);
    quick->features += done * element_bytes(quick->element);
    return done == count;
}

/* A run of features, all of them quoted or none: as quick_run(). */
static const char *quick_features(struct quick *quick, const char *at, size_t count, bool is_last)
{
    char delimiter = quick->decoder->splitter.delimiter;
    bool done = true;
    if (*at != '"') {
        done = quick_numbers(quick, &at, count - is_last, delimiter);
        if (done && is_last) {
            done = quick_numbers(quick, &at, 1, '\n') || quick_numbers(quick, &at, 1, '\r');
            at--;
        }
        return done ? at : NULL;
    }
    for (size_t i = 0; i < count && done; i++) {
        done = *at++ == '"' && quick_numbers(quick, &at, 1, '"');
        if (done && !(is_last && i + 1 == count))
            done = *at++ == delimiter;
    }
    return done ? at : NULL;
}

/* One run of columns: returns what follows the delimiter after it (the line end after the last
 * run), or NULL. */
static const char *quick_run(struct quick *quick, const struct column_run *run, const char *at)
{
    char delimiter = quick->decoder->splitter.delimiter;
    bool is_last = run->first + run->count == quick->fields;
    if (run->role == COLUMN_FEATURE && quick->features)
        return quick_features(quick, at, run->count, is_last);
    if (run->role == COLUMN_FEATURE || run->role == COLUMN_IGNORED)
        return quick_skip(quick, at, run->count, is_last);
    struct text text;
    at = quick_text(at, quick->end, delimiter, &text);
    if (!at || !set_key(quick->row, run->role, &text))
        return NULL;
    return is_last ? at : *at == delimiter ? at + 1 : NULL;
}

/* Room for the integers of a row of any length; if there is none, the slow path still works. */
static bool has_room(struct csv_decoder *decoder, size_t length)
{
    return length <= decoder->most &&
           (length <= decoder->bytes_capacity ||
            !array_grow((void **)&decoder->bytes, &decoder->bytes_capacity, length, 1,
                        "a row of CSV"));
}

/* The features after all keys, for a row that has any number of them. Sets *ret_run; false: left to
 * the slow path. */
static bool quick_open_run(struct csv_decoder *decoder, struct quick *quick, const char *record,
                           struct column_run *ret_run)
{
    const struct csv_columns *columns = decoder->columns;
    const struct column_run *last = &columns->runs[columns->run_count - 1];
    const char *line_end = memchr(record, '\n', (size_t)(quick->end - record));
    if (!quick->plain)
        return false;
    quick->fields =
        csv_count_bytes(record, (size_t)(line_end - record), decoder->splitter.delimiter) + 1;
    if (quick->fields < last->first || quick->fields == 0)
        return false;
    *ret_run = (struct column_run){
        .role = COLUMN_FEATURE, .first = last->first, .count = quick->fields - last->first};
    quick->row->length = ret_run->count;
    for (size_t i = 0; i + 1 < columns->run_count; i++)
        quick->row->length += columns->runs[i].role == COLUMN_FEATURE ? columns->runs[i].count : 0;
    return !quick->features || has_room(decoder, quick->row->length);
}

/* A record whose LF is before `end`: returns what follows it, or NULL. A blank record may pass for
 * one of empty fields. */
static const char *decode_quickly(struct csv_decoder *decoder, const char *record, const char *end,
                                  bool plain, enum element element, void *features,
                                  struct store_row *row)
{
    const struct csv_columns *columns = decoder->columns;
    struct quick quick = {.decoder = decoder,
                          .end = end,
                          .plain = plain,
                          .fields = columns->count,
                          .element = element,
                          .features = features,
                          .row = row};
    struct column_run open;
    size_t runs = columns->run_count;
    const char *at = record;
    if (features && columns->plan.recipe)
        return NULL; /* the slow path handles texts and missing values */
    *row = store_row_fresh;
    if (row_limit_varies(&columns->limit)) {
        if (!quick_open_run(decoder, &quick, record, &open))
            return NULL;
        runs--;
    }
    for (size_t i = 0; i < runs && at; i++)
        at = quick_run(&quick, &columns->runs[i], at);
    if (at && runs < columns->run_count && open.count > 0)
        at = quick_run(&quick, &open, at);
    return at ? quick_line_end(at) : NULL;
}

/* ---- slow path ---------------------------------------------------------- */

/* "2,5": a comma between digits while the delimiter is another. */
static bool has_decimal_comma(const struct text *field)
{
    char copy[64];
    const char *comma = memchr(field->data, ',', field->length);
    if (!comma || field->length >= sizeof(copy))
        return false;
    memcpy(copy, field->data, field->length);
    copy[comma - field->data] = '.';
    return text_is_real(copy, field->length);
}

/* "1,234", "12,345,678.9": a comma before each group of three digits; in "1,234" it may be
 * decimal. */
static bool has_thousands(const struct text *field)
{
    const char *at = field->data, *end = at + field->length;
    size_t digits = 0, commas = 0;
    at += at < end && *at == '-';
    for (; at < end && (*at == ',' || (*at >= '0' && *at <= '9')); at++) {
        bool comma = *at == ',';
        if (comma && (digits == 0 || digits > 3 || (commas > 0 && digits != 3)))
            return false;
        commas += comma;
        digits = comma ? 0 : digits + 1;
    }
    return commas > 0 && digits == 3 && (at == end || *at == '.');
}

/* Advice for the usual cases; "" for others. */
static const char *way_out(enum column_role role, const struct text *field)
{
    if (!text_is_utf8(field->data, field->length))
        return csv_encoding_advice(field);
    if (role == COLUMN_ID)
        return " (id= in the URI, without a name, numbers the rows from 0; features=A,B,C then "
               "leaves the texts out)";
    if (role != COLUMN_FEATURE || text_is_real(field->data, field->length))
        return "";
    if (has_thousands(field))
        return " (thousands are written without commas, and a decimal comma must be a point)";
    return has_decimal_comma(field) ? " (a decimal comma must be a point)"
                                    : feature_way_out(field->data, field->length);
}

static enum error refuse_for(const struct csv_decoder *decoder, size_t column, const char *wanted,
                             const char *advice)
{
    char name[COLUMN_TEXT_BYTES];
    char shown[TEXT_QUOTE_BYTES];
    const struct text *field = &decoder->splitter.fields[column];
    if (column < decoder->columns->count)
        csv_column_text(decoder->columns, column, name);
    else
        snprintf(name, sizeof(name), "field %zu", column + 1);
    if (field->length == 0)
        return error_set(ERROR_INPUT, "%s is empty; %s belongs there%s", name, wanted, advice);
    return error_set(ERROR_INPUT, "%s is %s; %s belongs there%s", name,
                     text_quote(shown, sizeof(shown), field->data, field->length), wanted, advice);
}

static enum error refuse_field(const struct csv_decoder *decoder, size_t column, const char *wanted)
{
    const struct csv_columns *columns = decoder->columns;
    /* No parameter changes only some features. */
    bool has_way = !row_limit_varies(&columns->limit) &&
                   !(columns->element.told && columns->roles[column] == COLUMN_FEATURE);
    return refuse_for(decoder, column, wanted,
                      has_way ? way_out(columns->roles[column], &decoder->splitter.fields[column])
                              : "");
}

static enum error check_count(const struct csv_decoder *decoder)
{
    size_t count = decoder->splitter.count;
    size_t wanted = decoder->columns->count;
    if (count == wanted)
        return OK;
    return error_set(ERROR_INPUT, "the row has %zu %s, the %s has %zu" ROW_LIMIT_HINT, count,
                     text_plural(count, "field", "fields"),
                     decoder->columns->header ? "header" : "first row", wanted);
}

/* If rows differ in length: empty fields at the end are not features. *ret_length: features. */
static enum error measure(struct csv_decoder *decoder, size_t *ret_length)
{
    struct csv_splitter *splitter = &decoder->splitter;
    const struct csv_columns *columns = decoder->columns;
    char name[COLUMN_TEXT_BYTES];
    size_t keys = 0;
    if (splitter->count < columns->keys_end)
        return error_set(ERROR_INPUT, "the row has %zu %s and ends before %s", splitter->count,
                         text_plural((int64_t)splitter->count, "field", "fields"),
                         csv_column_text(columns, columns->keys_end - 1, name));
    while (splitter->count > columns->keys_end && splitter->fields[splitter->count - 1].length == 0)
        splitter->count--;
    for (size_t role = 0; role < COLUMN_ROLES; role++)
        keys += columns->column_of[role] >= 0;
    *ret_length = splitter->count - keys;
    return OK;
}

static enum error take_key(const struct csv_decoder *decoder, size_t column, enum column_role role,
                           struct store_row *row)
{
    static const char *const wanted[COLUMN_ROLES] = {
        [COLUMN_ID] = "an id from 0 to 9223372036854775807",
        [COLUMN_LABEL] = "a label",
        [COLUMN_WEIGHT] = WEIGHT_WANTED,
        [COLUMN_GROUP] = "a group",
    };
    const struct text *field = &decoder->splitter.fields[column];
    if (field->length == 0 || !set_key(row, role, field))
        return refuse_field(decoder, column, wanted[role]);
    if (!text_is_utf8(field->data, field->length))
        return refuse_field(decoder, column, "UTF-8 text without NUL");
    return OK;
}

/* Sets ROW_BAD and the message for the row's first bad feature. */
static void take_feature(const struct csv_decoder *decoder, size_t column, enum element element,
                         void *features, size_t feature, struct store_row *row)
{
    const struct text *field = &decoder->splitter.fields[column];
    double value;
    if (row->status != ROW_OK)
        return;
    if (text_parse_real(field->data, field->length, &value) && feature_fits(value, element)) {
        feature_store(value, element, features, feature, &row->is_u8);
        return;
    }
    row->status = ROW_BAD;
    refuse_field(decoder, column,
                 feature_wanted(text_is_real(field->data, field->length), element));
}

/* The same with a plan. */
static void take_cell(const struct csv_decoder *decoder, size_t column,
                      const struct cell_row *cells, size_t feature, struct store_row *row)
{
    const struct text *field = &decoder->splitter.fields[column];
    char wanted[CELL_WANTED_BYTES];
    if (row->status != ROW_OK || cell_row_text(cells, feature, field->data, field->length, wanted))
        return;
    row->status = ROW_BAD;
    if (field->length > 0 && cell_row_wants_text(cells, feature))
        refuse_for(decoder, column, wanted, "");
    else
        refuse_field(decoder, column, wanted);
}

static enum error decode_varying(struct csv_decoder *decoder, char *record, size_t length,
                                 enum element element, void *features, struct store_row *row)
{
    const struct csv_columns *columns = decoder->columns;
    size_t feature = 0;
    enum error error = csv_splitter_reserve(
        &decoder->splitter, csv_count_bytes(record, length, decoder->splitter.delimiter) + 1);
    if (!error)
        error = csv_split(&decoder->splitter, record, length);
    if (!error)
        error = measure(decoder, &row->length);
    if (!error && features && row->length > decoder->most)
        error = row_limit_refuse(&columns->limit, row->length);
    for (size_t i = 0; i < decoder->splitter.count && !error; i++) {
        enum column_role role = i < columns->count ? columns->roles[i] : COLUMN_FEATURE;
        if (role != COLUMN_FEATURE)
            error = take_key(decoder, i, role, row);
        else if (features)
            take_feature(decoder, i, element, features, feature++, row);
    }
    return error;
}

static enum error decode_slowly(struct csv_decoder *decoder, char *record, size_t length,
                                enum element element, void *features, struct store_row *row)
{
    const struct csv_columns *columns = decoder->columns;
    const struct cell_row cells = {&columns->plan, decoder->learner, features};
    bool planned = features && columns->plan.recipe;
    size_t feature = 0;
    if (planned)
        cell_row_begin(&cells);
    row->is_u8 = !planned;
    enum error error = csv_split(&decoder->splitter, record, length);
    if (!error)
        error = check_count(decoder);
    for (size_t i = 0; i < columns->count && !error; i++) {
        if (columns->roles[i] == COLUMN_IGNORED)
            continue;
        if (columns->roles[i] != COLUMN_FEATURE)
            error = take_key(decoder, i, columns->roles[i], row);
        else if (planned)
            take_cell(decoder, i, &cells, feature++, row);
        else if (features)
            take_feature(decoder, i, element, features, feature++, row);
    }
    return error;
}

enum error csv_decode_row(struct csv_decoder *decoder, char *record, size_t length, bool plain,
                          enum element element, void *features, struct store_row *ret_row)
{
    if (!plain)
        plain = !memchr(record, '"', length);
    if (decode_quickly(decoder, record, record + length, plain, element, features, ret_row))
        return OK;
    *ret_row = store_row_fresh;
    return row_limit_varies(&decoder->columns->limit)
               ? decode_varying(decoder, record, length, element, features, ret_row)
               : decode_slowly(decoder, record, length, element, features, ret_row);
}

static bool may_be_blank(const char *record)
{
    return *record == ' ' || *record == '\t' || *record == '\r' || *record == '\n';
}

/* The fast path finds the record's end itself; the slow one needs it first. */
enum error csv_decode_next(struct csv_decoder *decoder, struct csv_block *block,
                           struct csv_cursor *cursor, enum element element, void *features,
                           struct store_row *ret_row)
{
    const char *record = block->data + cursor->at;
    const char *next = NULL;
    if (block->plain && cursor->at < block->length && !may_be_blank(record))
        next = decode_quickly(decoder, record, block->data + block->length, true, element, features,
                              ret_row);
    if (next) {
        cursor->record = cursor->at;
        cursor->at = (size_t)(next - block->data);
        cursor->line = block->first_line + cursor->lines++;
        return OK;
    }
    size_t length;
    char *found = csv_block_next(block, decoder->splitter.delimiter, &cursor->at, &cursor->lines,
                                 &length, &cursor->line);
    if (!found)
        return ERROR_END;
    cursor->record = (size_t)(found - block->data);
    return csv_decode_row(decoder, found, length, block->plain, element, features, ret_row);
}
