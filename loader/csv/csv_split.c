/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_split.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define QUOTE '"'

static bool is_blank(char byte, char delimiter)
{
    return (byte == ' ' || byte == '\t') && byte != delimiter;
}

/* Bytes of the record before LF or CR LF. */
static size_t content_length(const char *record, size_t length)
{
    if (length > 0 && record[length - 1] == '\n')
        length--;
    if (length > 0 && record[length - 1] == '\r')
        length--;
    return length;
}

bool csv_record_is_blank(const char *record, size_t length, char delimiter)
{
    length = content_length(record, length);
    size_t at = 0;
    while (at < length && is_blank(record[at], delimiter))
        at++;
    return at == length;
}

enum error csv_splitter_init(struct csv_splitter *splitter, char delimiter, size_t capacity)
{
    *splitter = (struct csv_splitter){.delimiter = delimiter, .capacity = capacity};
    splitter->fields = array_new(capacity, sizeof(*splitter->fields), "the fields of a CSV row");
    return splitter->fields ? OK : ERROR_MEMORY;
}

void csv_splitter_release(struct csv_splitter *splitter)
{
    free(splitter->fields);
    splitter->fields = NULL;
    if (splitter->parser_ready)
        csv_free(&splitter->parser);
    splitter->parser_ready = false;
}

enum error csv_splitter_reserve(struct csv_splitter *splitter, size_t capacity)
{
    return array_grow((void **)&splitter->fields, &splitter->capacity, capacity,
                      sizeof(*splitter->fields), "the fields of a CSV row");
}

static void add_field(struct csv_splitter *splitter, const char *text, size_t length)
{
    if (splitter->count < splitter->capacity)
        splitter->fields[splitter->count] = (struct text){.data = text, .length = length};
    splitter->count++;
}

static void add_trimmed(struct csv_splitter *splitter, const char *text, size_t length)
{
    while (length > 0 && is_blank(text[0], splitter->delimiter)) {
        text++;
        length--;
    }
    while (length > 0 && is_blank(text[length - 1], splitter->delimiter))
        length--;
    add_field(splitter, text, length);
}

static enum error refuse_return(void)
{
    return error_set(ERROR_INPUT, "a carriage return stands inside the line; lines end with LF or "
                                  "CR LF");
}

static enum error split_plain(struct csv_splitter *splitter, const char *record, size_t length)
{
    length = content_length(record, length);
    splitter->count = 0;
    if (memchr(record, '\r', length))
        return refuse_return();
    const char *field = record;
    const char *end = record + length;
    for (const char *at = record; at < end; at++) {
        if (*at != splitter->delimiter)
            continue;
        add_trimmed(splitter, field, (size_t)(at - field));
        field = at + 1;
    }
    add_trimmed(splitter, field, (size_t)(end - field));
    return OK;
}

/* libcsv's own buffer is reused for the next field, so the text moves into the record: the part
 * already read is never shorter than the unquoted fields so far. */
static void on_field(void *text, size_t length, void *context)
{
    struct csv_splitter *splitter = context;
    if (splitter->row_ended)
        return; /* after a stray CR: the record is refused anyway */
    if (length > 0)
        memcpy(splitter->write, text, length);
    add_field(splitter, splitter->write, length);
    splitter->write += length;
}

static void on_row(int byte, void *context)
{
    struct csv_splitter *splitter = context;
    (void)byte;
    splitter->row_ended = true;
}

static enum error prepare_parser(struct csv_splitter *splitter)
{
    if (!splitter->parser_ready && csv_init(&splitter->parser, CSV_STRICT | CSV_STRICT_FINI) != 0)
        return error_set(ERROR_MEMORY, "libcsv cannot start");
    splitter->parser_ready = true;
    csv_set_delim(&splitter->parser, (unsigned char)splitter->delimiter);
    return OK;
}

static enum error explain_failure(struct csv_splitter *splitter, size_t length)
{
    int reason = csv_error(&splitter->parser);
    if (reason == CSV_ENOMEM || reason == CSV_ETOOBIG)
        return error_set_memory(length, "a CSV row");
    return error_set(ERROR_INPUT,
                     "field %zu has a quote in its middle; a field with quotes is written in "
                     "quotes, and each quote of its own twice",
                     splitter->count + 1);
}

/* libcsv silently takes a CR before the first field for an empty row. */
static bool begins_with_return(const char *record, size_t length, char delimiter)
{
    size_t at = 0;
    while (at < length && is_blank(record[at], delimiter))
        at++;
    return at < length && record[at] == '\r';
}

/* The line end is passed separately: a row that ends before it ended at a CR. */
static enum error parse_record(struct csv_splitter *splitter, const char *record, size_t length)
{
    struct csv_parser *parser = &splitter->parser;
    length = content_length(record, length);
    if (begins_with_return(record, length, splitter->delimiter))
        return refuse_return();
    if (csv_parse(parser, record, length, on_field, on_row, splitter) != length)
        return explain_failure(splitter, length);
    if (splitter->row_ended)
        return refuse_return();
    if (csv_parse(parser, "\n", 1, on_field, on_row, splitter) != 1)
        return explain_failure(splitter, length);
    if (!splitter->row_ended)
        return error_set(ERROR_INPUT, "the quotes of field %zu are never closed",
                         splitter->count + 1);
    return OK;
}

enum error csv_split_quoted(struct csv_splitter *splitter, char *record, size_t length)
{
    enum error error = prepare_parser(splitter);
    if (error)
        return error;
    splitter->count = 0;
    splitter->write = record;
    splitter->row_ended = false;
    error = parse_record(splitter, record, length);
    if (error) { /* libcsv keeps part of a row: the next one needs a new parser */
        csv_free(&splitter->parser);
        splitter->parser_ready = false;
    }
    return error;
}

/* ---- what nearly all records with quotes are ---------------------------- */

/* A field's closing quote; NULL: there is none. *doubled is set if there are quotes inside. */
static const char *closing_quote(const char *opening, const char *end, bool *doubled)
{
    const char *at = opening;
    for (;;) {
        at = memchr(at + 1, QUOTE, (size_t)(end - at - 1));
        if (!at || at + 1 == end || at[1] != QUOTE)
            return at;
        *doubled = true;
        at++;
    }
}

/* One field; returns the delimiter or `end` after it, or NULL: left to libcsv. */
static const char *split_field(struct csv_splitter *splitter, const char *field, const char *end,
                               bool *doubled)
{
    const char *at = field;
    if (at < end && *at == QUOTE) {
        at = closing_quote(field, end, doubled);
        if (!at || (at + 1 < end && at[1] != splitter->delimiter))
            return NULL;
        add_field(splitter, field + 1, (size_t)(at - field - 1));
        return at + 1;
    }
    for (; at < end && *at != splitter->delimiter; at++) {
        if (*at == QUOTE || *at == '\r')
            return NULL;
    }
    add_trimmed(splitter, field, (size_t)(at - field));
    return at;
}

/* Turns doubled quotes inside a field into single ones. */
static void undouble(struct text *field, char *record)
{
    char *text = record + (field->data - record);
    size_t kept = 0;
    for (size_t i = 0; i < field->length; i++) {
        text[kept++] = text[i];
        i += text[i] == QUOTE;
    }
    field->length = kept;
}

/* false: it is not of that form, and unchanged. */
static bool split_simply(struct csv_splitter *splitter, char *record, size_t length)
{
    const char *end = record + content_length(record, length), *at = record;
    bool doubled = false;
    splitter->count = 0;
    do {
        at = split_field(splitter, at, end, &doubled);
        if (!at)
            return false;
    } while (at++ < end);
    size_t kept = splitter->count < splitter->capacity ? splitter->count : splitter->capacity;
    for (size_t i = 0; i < kept && doubled; i++)
        undouble(&splitter->fields[i], record);
    return true;
}

enum error csv_split(struct csv_splitter *splitter, char *record, size_t length)
{
    if (!memchr(record, QUOTE, length))
        return split_plain(splitter, record, length);
    return split_simply(splitter, record, length) ? OK : csv_split_quoted(splitter, record, length);
}
