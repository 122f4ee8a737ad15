/* SPDX-License-Identifier: MIT */
/*
 * Rows as one structured numpy array (NEP 1: "\x93NUMPY", version, header length, a Python literal
 * padded to 64 bytes, the records). The header contains the number of rows, which is known last: if
 * the output cannot seek, rows are spooled to a temporary file. A truncated file has zeros instead
 * of its header, and numpy refuses it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "loader/tool/row_writer.h"

#define ALIGNMENT_BYTES 64
#define PRELUDE_BYTES 10 /* magic, version 1.0, u16 length */
#define LITERAL_BYTES 256
#define CHARACTER_BYTES 4 /* numpy keeps texts as UTF-32 */

/* ---- the header --------------------------------------------------------- */

static void describe_label(const struct row_writer *writer, char *out, size_t bytes)
{
    if (writer->info->label_kind == LABEL_TEXT)
        snprintf(out, bytes, "<U%zu", writer->label_length);
    else
        snprintf(out, bytes, "%s", writer->info->label_kind == LABEL_REAL ? "<f8" : "<i8");
}

static void describe_group(const struct row_writer *writer, char *out, size_t bytes)
{
    out[0] = '\0';
    if (writer->extras.group_texts)
        snprintf(out, bytes, ", ('group', '<U%zu')", writer->group_length);
    else if (writer->extras.groups)
        snprintf(out, bytes, ", ('group', '<i8')");
}

static bool varies(const struct row_writer *writer)
{
    return writer->info->lengths != LENGTHS_ALIKE;
}

static int write_literal(const struct row_writer *writer, uint64_t rows, char out[LITERAL_BYTES])
{
    static const char *const elements[ELEMENTS] = {
        [ELEMENT_U8] = "|u1", [ELEMENT_F32] = "<f4", [ELEMENT_I32] = "<i4"};
    char label[32], group[48];
    describe_label(writer, label, sizeof(label));
    describe_group(writer, group, sizeof(group));
    return snprintf(out, LITERAL_BYTES,
                    "{'descr': [('id', '<i8'), ('label', '%s')%s%s%s, ('x', '%s', (%zu,))], "
                    "'fortran_order': False, 'shape': (%" PRIu64 ",), }",
                    label, writer->extras.weights ? ", ('weight', '<f8')" : "", group,
                    varies(writer) ? ", ('length', '<i8')" : "", elements[writer->info->element],
                    writer->info->features, rows);
}

/* The same size for every number of rows. */
static void write_header(struct row_writer *writer, uint64_t rows)
{
    char literal[LITERAL_BYTES];
    size_t length = writer->header_bytes - PRELUDE_BYTES;
    size_t used = (size_t)write_literal(writer, rows, literal);
    memcpy(writer->header, "\x93NUMPY\x01\x00", 8);
    writer->header[8] = (char)(length & 0xff);
    writer->header[9] = (char)(length >> 8);
    memset(writer->header + PRELUDE_BYTES, ' ', length);
    memcpy(writer->header + PRELUDE_BYTES, literal, used);
    writer->header[writer->header_bytes - 1] = '\n';
}

/* ---- texts -------------------------------------------------------------- */

/* The character at *at (UTF-8 that the store has checked); advances *at. */
static uint32_t next_character(const char **at)
{
    const unsigned char *byte = (const unsigned char *)*at;
    unsigned following = *byte < 0xc0 ? 0 : *byte < 0xe0 ? 1 : *byte < 0xf0 ? 2 : 3;
    uint32_t character = following > 0 ? *byte & (0x3fu >> following) : *byte;
    for (byte++; following > 0 && *byte; following--, byte++)
        character = character << 6 | (*byte & 0x3fu);
    *at = (const char *)byte;
    return character;
}

static size_t count_characters(const char *text)
{
    size_t count = 0;
    while (*text) {
        next_character(&text);
        count++;
    }
    return count;
}

static size_t longest_text(const char *const texts[], size_t count)
{
    size_t longest = 1; /* '<U0' is not a valid type */
    for (size_t i = 0; i < count; i++) {
        size_t length = count_characters(texts[i]);
        if (length > longest)
            longest = length;
    }
    return longest;
}

/* ---- rows --------------------------------------------------------------- */

static size_t label_bytes(const struct row_writer *writer)
{
    return writer->info->label_kind == LABEL_TEXT ? writer->label_length * CHARACTER_BYTES
                                                  : sizeof(int64_t);
}

static size_t group_bytes(const struct row_writer *writer)
{
    const struct row_extras *extras = &writer->extras;
    return !extras->groups       ? 0
           : extras->group_texts ? writer->group_length * CHARACTER_BYTES
                                 : sizeof(int64_t);
}

static enum error npy_begin(struct row_writer *writer)
{
    char literal[LITERAL_BYTES];
    const struct row_extras *extras = &writer->extras;
    writer->label_length = longest_text(writer->info->label_texts, writer->info->label_text_count);
    writer->group_length = longest_text(extras->group_texts, extras->group_text_count);
    size_t longest = (size_t)write_literal(writer, UINT64_MAX, literal);
    writer->header_bytes =
        (PRELUDE_BYTES + longest + 1 + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    writer->header = array_new(writer->header_bytes, 1, "a npy header");
    if (!writer->header)
        return ERROR_MEMORY;
    if (output_seekable(writer->output))
        return output_add(writer->output, writer->header, writer->header_bytes);
    enum error error = output_open_temporary(&writer->spool);
    if (!error)
        writer->target = writer->spool;
    return error;
}

/* As UTF-32, padded with zeros. */
static void write_text(const char *text, size_t bytes, char *out)
{
    memset(out, 0, bytes);
    while (*text) {
        uint32_t character = next_character(&text);
        memcpy(out, &character, CHARACTER_BYTES);
        out += CHARACTER_BYTES;
    }
}

/* `out` need not be aligned. */
static void write_label(const struct row_writer *writer, double label, char *out)
{
    const struct store_info *info = writer->info;
    if (info->label_kind == LABEL_TEXT) {
        write_text(info->label_texts[(size_t)label], label_bytes(writer), out);
    } else if (info->label_kind == LABEL_REAL) {
        memcpy(out, &label, sizeof(label));
    } else {
        int64_t integer = (int64_t)label;
        memcpy(out, &integer, sizeof(integer));
    }
}

static char *write_extras(const struct row_writer *writer, const struct row_values *row, char *out)
{
    const struct row_extras *extras = &writer->extras;
    if (extras->weights) {
        memcpy(out, &row->weight, sizeof(row->weight));
        out += sizeof(row->weight);
    }
    if (extras->group_texts)
        write_text(extras->group_texts[row->group], group_bytes(writer), out);
    else if (extras->groups)
        memcpy(out, &row->group, sizeof(row->group));
    return out + group_bytes(writer);
}

static enum error npy_row(struct row_writer *writer, const struct row_values *row)
{
    size_t bytes = sizeof(row->id) + label_bytes(writer) + sizeof(row->weight) +
                   group_bytes(writer) + sizeof(int64_t) + writer->row_bytes;
    size_t features = row->length * element_bytes(writer->info->element);
    int64_t length = (int64_t)row->length;
    char *room;
    enum error error = output_reserve(writer->target, bytes, &room);
    if (error)
        return error;
    char *end = room + sizeof(row->id) + label_bytes(writer);
    memcpy(room, &row->id, sizeof(row->id));
    write_label(writer, row->label, room + sizeof(row->id));
    end = write_extras(writer, row, end);
    if (varies(writer)) {
        memcpy(end, &length, sizeof(length));
        end += sizeof(length);
        memset(end + features, 0, writer->row_bytes - features);
    }
    if (features > 0)
        memcpy(end, row->features, features);
    output_advance(writer->target, (size_t)(end - room) + writer->row_bytes);
    return OK;
}

static enum error npy_finish(struct row_writer *writer)
{
    write_header(writer, writer->rows);
    if (!writer->spool)
        return output_patch(writer->output, writer->header, writer->header_bytes, 0);
    enum error error = output_add(writer->output, writer->header, writer->header_bytes);
    if (!error)
        error = output_copy(writer->output, writer->spool);
    return error ? error : output_flush(writer->output);
}

const struct row_writer_ops row_writer_npy = {
    .name = "npy", .begin = npy_begin, .row = npy_row, .finish = npy_finish};
