/* SPDX-License-Identifier: MIT */
/*
 * Rows as CSV. Bytes are looked up in a table of their digits; everything else is rare enough for
 * the C library.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "loader/tool/row_writer.h"

#define NUMBER_BYTES 32 /* no number is longer, its separator included */
#define INTEGRAL_LIMIT 1e15

/* ",0" to ",255", with the length of each. */
static struct {
    char text[4];
    uint32_t length;
} byte_texts[256];
static pthread_once_t byte_texts_once = PTHREAD_ONCE_INIT;

static void make_byte_texts(void)
{
    for (int i = 0; i < 256; i++) {
        char text[8];
        byte_texts[i].length = (uint32_t)snprintf(text, sizeof(text), ",%d", i);
        memcpy(byte_texts[i].text, text, sizeof(byte_texts[i].text));
    }
}

/* ---- one field ---------------------------------------------------------- */

static size_t quoted_bytes(const char *text)
{
    size_t bytes = 2;
    for (; *text; text++)
        bytes += *text == '"' ? 2 : 1;
    return bytes;
}

static char *write_text(char *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        size_t length = strlen(text);
        memcpy(out, text, length);
        return out + length;
    }
    *out++ = '"';
    for (; *text; text++) {
        if (*text == '"')
            *out++ = '"';
        *out++ = *text;
    }
    *out++ = '"';
    return out;
}

static bool is_integral(double value)
{
    return fabs(value) < INTEGRAL_LIMIT && value == (double)(int64_t)value &&
           !(value == 0 && signbit(value));
}

/* The fewest digits that read back as the same number. */
static char *write_double(char *out, double value)
{
    if (is_integral(value))
        return text_write_integer(out, (int64_t)value);
    return out + strlen(text_of_real(value, out));
}

static char *write_float(char *out, float value)
{
    if (is_integral((double)value))
        return text_write_integer(out, (int64_t)value);
    int length = 0;
    for (int digits = 6; digits <= 9; digits++) {
        length = snprintf(out, NUMBER_BYTES, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    return out + length;
}

static char *write_label(char *out, const struct store_info *info, double label)
{
    if (info->label_kind == LABEL_TEXT)
        return write_text(out, info->label_texts[(size_t)label]);
    return write_double(out, label);
}

/* ---- rows --------------------------------------------------------------- */

static size_t longest_text(const char *const texts[], size_t count)
{
    size_t longest = NUMBER_BYTES;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = quoted_bytes(texts[i]);
        if (bytes > longest)
            longest = bytes;
    }
    return longest;
}

static size_t longest_keys(const struct row_writer *writer)
{
    const struct store_info *info = writer->info;
    const struct row_extras *extras = &writer->extras;
    return 4 * (NUMBER_BYTES + 1) + longest_text(info->label_texts, info->label_text_count) +
           longest_text(extras->group_texts, extras->group_text_count);
}

static enum error write_name(struct row_writer *writer, const char *name)
{
    char *room;
    enum error error = output_reserve(writer->target, quoted_bytes(name) + 1, &room);
    if (error)
        return error;
    *room = ',';
    char *end = write_text(room + 1, name);
    output_advance(writer->target, (size_t)(end - room));
    return OK;
}

static enum error csv_begin(struct row_writer *writer)
{
    const struct store_info *info = writer->info;
    pthread_once(&byte_texts_once, make_byte_texts);
    size_t field = info->element == ELEMENT_U8 ? sizeof(byte_texts[0].text) : NUMBER_BYTES;
    writer->row_limit = longest_keys(writer) + info->features * field + 8;
    enum error error = output_add(writer->target, "id,label", strlen("id,label"));
    if (!error && writer->extras.weights)
        error = write_name(writer, "weight");
    if (!error && writer->extras.groups)
        error = write_name(writer, "group");
    for (size_t i = 0; !error && info->feature_names && i < info->features; i++)
        error = write_name(writer, info->feature_names[i]);
    return error ? error : output_add(writer->target, "\n", 1);
}

static char *write_bytes(char *out, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out, byte_texts[bytes[i]].text, sizeof(byte_texts[0].text));
        out += byte_texts[bytes[i]].length;
    }
    return out;
}

static char *write_floats(char *out, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *out++ = ',';
        out = write_float(out, values[i]);
    }
    return out;
}

static char *write_integers(char *out, const int32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *out++ = ',';
        out = text_write_integer(out, values[i]);
    }
    return out;
}

static char *write_features(char *out, enum element element, const struct row_values *row)
{
    switch (element) {
    case ELEMENT_F32:
        return write_floats(out, row->features, row->length);
    case ELEMENT_I32:
        return write_integers(out, row->features, row->length);
    case ELEMENT_U8:
        break;
    }
    return write_bytes(out, row->features, row->length);
}

static char *write_extras(char *out, const struct row_extras *extras, const struct row_values *row)
{
    if (extras->weights) {
        *out++ = ',';
        out = write_double(out, row->weight);
    }
    if (extras->groups) {
        *out++ = ',';
        out = extras->group_texts ? write_text(out, extras->group_texts[row->group])
                                  : text_write_integer(out, row->group);
    }
    return out;
}

static enum error csv_row(struct row_writer *writer, const struct row_values *row)
{
    const struct store_info *info = writer->info;
    char *room;
    enum error error = output_reserve(writer->target, writer->row_limit, &room);
    if (error)
        return error;
    char *end = text_write_integer(room, row->id);
    *end++ = ',';
    end = write_label(end, info, row->label);
    end = write_extras(end, &writer->extras, row);
    end = write_features(end, info->element, row);
    *end++ = '\n';
    output_advance(writer->target, (size_t)(end - room));
    return OK;
}

static enum error csv_finish(struct row_writer *writer)
{
    return output_flush(writer->target);
}

const struct row_writer_ops row_writer_csv = {
    .name = "csv", .begin = csv_begin, .row = csv_row, .finish = csv_finish};
