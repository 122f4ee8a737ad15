/* SPDX-License-Identifier: MIT */
/*
 * Rows as one structured numpy array (NEP 1: "\x93NUMPY", version, header length, a Python literal
 * padded to 64 bytes, the records). The header says how many rows there are, which is known last:
 * where the output cannot go back, rows are spooled to a temporary file. A file that was cut short
 * has zeros where its header should be, and numpy refuses it.
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

static int write_literal(const struct row_writer *writer, uint64_t rows, char out[LITERAL_BYTES])
{
    char label[32];
    describe_label(writer, label, sizeof(label));
    return snprintf(out, LITERAL_BYTES,
                    "{'descr': [('id', '<i8'), ('label', '%s'), ('x', '%s', (%zu,))], "
                    "'fortran_order': False, 'shape': (%" PRIu64 ",), }",
                    label, writer->info->element == ELEMENT_U8 ? "|u1" : "<f4",
                    writer->info->features, rows);
}

/* The same number of bytes for every number of rows. */
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

/* ---- text labels -------------------------------------------------------- */

/* The character at *at (UTF-8 that the store has checked), and on to the next one. */
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

static size_t longest_label(const struct store_info *info)
{
    size_t longest = 1; /* '<U0' would be no text at all */
    for (size_t i = 0; info->label_kind == LABEL_TEXT && i < info->label_text_count; i++) {
        size_t length = count_characters(info->label_texts[i]);
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

static enum error npy_begin(struct row_writer *writer)
{
    char literal[LITERAL_BYTES];
    writer->label_length = longest_label(writer->info);
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

/* `out` need not be aligned. */
static void write_label(const struct row_writer *writer, double label, char *out)
{
    const struct store_info *info = writer->info;
    if (info->label_kind == LABEL_TEXT) {
        const char *text = info->label_texts[(size_t)label];
        memset(out, 0, label_bytes(writer));
        while (*text) {
            uint32_t character = next_character(&text);
            memcpy(out, &character, CHARACTER_BYTES);
            out += CHARACTER_BYTES;
        }
    } else if (info->label_kind == LABEL_REAL) {
        memcpy(out, &label, sizeof(label));
    } else {
        int64_t integer = (int64_t)label;
        memcpy(out, &integer, sizeof(integer));
    }
}

static enum error npy_row(struct row_writer *writer, int64_t id, double label, const void *features)
{
    size_t bytes = sizeof(id) + label_bytes(writer) + writer->row_bytes;
    char *room;
    enum error error = output_reserve(writer->target, bytes, &room);
    if (error)
        return error;
    memcpy(room, &id, sizeof(id));
    write_label(writer, label, room + sizeof(id));
    if (writer->row_bytes > 0)
        memcpy(room + sizeof(id) + label_bytes(writer), features, writer->row_bytes);
    output_advance(writer->target, bytes);
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
