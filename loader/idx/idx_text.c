/* SPDX-License-Identifier: MIT */
#include "loader/idx/idx_text.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/huge_memory.h"
#include "common/machine.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define FREE_SHARE 2 /* one part in this many of the free memory may be used */

/* ---- reading a packed file ---------------------------------------------- */

static enum error read_records(const struct strided_text *records, void *out, size_t bytes,
                               uint64_t offset)
{
    const struct idx_text *text = (const struct idx_text *)records;
    struct text_file file = {.source = &text->source}; /* opened by its unpacker */
    return text_file_read_again(&file, out, bytes, offset);
}

const struct strided_text *idx_text_records(const struct idx_text *text)
{
    return text->held || text->source.packed ? &text->records : NULL;
}

enum error idx_text_rows(const struct idx_text *text, struct source_file *file,
                         struct strided_rows *ret_rows)
{
    const struct idx_header *header = &text->header;
    enum error error =
        strided_rows_init(ret_rows, file, header->bytes, header->row_bytes, NULL, header->rows);
    ret_rows->text = idx_text_records(text);
    return error;
}

/* ---- unpacking it once -------------------------------------------------- */

static bool has_room(uint64_t bytes)
{
    struct machine machine;
    machine_look(&machine);
    return bytes <= machine.free_bytes / FREE_SHARE;
}

/* Without enough memory the text is not kept. */
static void make_room(struct idx_text *text)
{
    uint64_t bytes = text->header.file_bytes;
    if (bytes <= SIZE_MAX && has_room(bytes))
        text->held = huge_memory_new((size_t)bytes, "an unpacked IDX file");
    text->records.held = text->held;
}

/* All of it, into `held` if there is that, else through `piece`; *ret_bytes: its length, counted up
 * to one more than the header says. */
static enum error unpack(const struct idx_text *text, uint8_t *piece, uint64_t *ret_bytes)
{
    uint64_t wanted = text->header.file_bytes, done = 0;
    size_t got = PIECE_BYTES, part = PIECE_BYTES;
    enum error error = OK;
    for (; !error && got == part && done <= wanted; done += got) {
        uint8_t *out = text->held && done < wanted ? text->held + done : piece;
        uint64_t left = done < wanted ? wanted - done : 1; /* is there more? */
        part = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        got = 0;
        error = packed_text_read(text->source.packed, out, part, done, &got);
    }
    *ret_bytes = done;
    return error;
}

static enum error unpack_once(struct idx_text *text, bool hold, uint64_t *ret_bytes)
{
    uint8_t *piece = array_new(PIECE_BYTES, 1, "a piece of an IDX file");
    if (!piece)
        return ERROR_MEMORY;
    if (hold)
        make_room(text);
    enum error error = unpack(text, piece, ret_bytes);
    free(piece);
    return error;
}

/* ---- opening ------------------------------------------------------------ */

static enum error read_header(struct idx_text *text)
{
    uint8_t bytes[IDX_HEADER_BYTES_LIMIT];
    struct text_file file;
    size_t length = 0;
    enum error error = text_file_open(&file, &text->source);
    if (error)
        return error;
    error = text_file_read(&file, bytes, sizeof(bytes), 0, &length);
    text_file_close(&file);
    return error ? error : idx_header_parse(bytes, length, text->source.path, &text->header);
}

static enum error open_text(struct idx_text *text, bool hold)
{
    enum error error = read_header(text);
    uint64_t bytes = text->source.identity.size_bytes;
    if (!error && text->source.packed)
        error = unpack_once(text, hold, &bytes);
    if (text->held)
        text_source_release(&text->source); /* its pages and windows are no longer needed */
    return error ? error : idx_header_check(&text->header, bytes, text->source.path);
}

enum error idx_text_open(struct idx_text *text, const char *path, bool hold)
{
    *text = (struct idx_text){.records = {.read = read_records}};
    enum error error = text_source_init(&text->source, path);
    if (!error)
        error = open_text(text, hold);
    if (error)
        idx_text_release(text);
    return error;
}

void idx_text_release(struct idx_text *text)
{
    huge_memory_free(text->held, (size_t)text->header.file_bytes);
    text_source_release(&text->source);
    *text = (struct idx_text){.held = NULL};
}
