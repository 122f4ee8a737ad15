/* SPDX-License-Identifier: MIT */
#include "loader/unpack/packed_load.h"

#include "common/array.h"
#include "common/stop.h"

#define MARK_EVERY_BYTES ((uint64_t)64 << 10) /* of packed bytes that hold no text */
#define DETOUR_PIECES 8                       /* unpacked without need rather than waiting */

static enum error stand(struct packed_load *load)
{
    struct packed_lane *lane = load->lane;
    const struct packed_file *file = load->file;
    enum error error = OK;
    if (!load->page->data)
        load->page->data = array_new(file->limit_bytes, 1, "the text of a packed file");
    if (!load->page->data)
        return ERROR_MEMORY;
    if (load->open)
        error = unpacker_open(&lane->unpacker, file->packing, file->path, &file->identity);
    if (!error && load->begin)
        error = unpacker_begin(&lane->unpacker, &load->point);
    return error;
}

bool packed_load_is_detour(const struct packed_file *file, uint64_t bytes)
{
    return bytes > DETOUR_PIECES * file->piece_bytes;
}

/* Skips text up to where the piece begins. */
static enum error pass_text(struct packed_load *load)
{
    uint64_t left = load->piece.offset - load->begin_offset;
    size_t most = load->file->limit_bytes;
    enum error error = OK;
    while (left > 0 && !error) {
        size_t bytes = left < most ? (size_t)left : most;
        if (stop_requested() && packed_load_is_detour(load->file, left))
            return error_set(ERROR_CANCELLED, "stopped while unpacking %s", load->file->path);
        error = unpacker_read(&load->lane->unpacker, load->page->data, bytes);
        left -= bytes;
    }
    return error;
}

/* Between its bytes a file may hold any number of members without text. */
static enum error mark_piece(struct packed_load *load)
{
    struct packed_piece *piece = &load->piece;
    uint64_t packed = unpacker_packed_offset(&load->lane->unpacker);
    if (piece->marked && packed - piece->point.packed_offset < MARK_EVERY_BYTES)
        return OK;
    unpack_point_release(&piece->point);
    enum error error = unpacker_mark(&load->lane->unpacker, &piece->point);
    piece->marked = !error;
    return error;
}

/* A piece ends at a possible end once it is large enough, or at once if it could not begin. */
static bool ends_here(const struct packed_load *load)
{
    return load->piece.bytes >= load->file->piece_bytes || !load->piece.marked;
}

static enum error find_text(struct packed_load *load)
{
    struct unpacker *unpacker = &load->lane->unpacker;
    struct packed_piece *piece = &load->piece;
    size_t limit = load->file->limit_bytes;
    enum error error = OK;
    piece->packed_offset = unpacker_packed_offset(unpacker);
    while (!error && piece->bytes < limit) {
        size_t more = 0;
        bool is_place = unpacker->place != UNPACK_WITHIN;
        if (is_place && piece->bytes > 0 && ends_here(load))
            break;
        if (is_place && piece->bytes == 0)
            error = mark_piece(load);
        if (!error && stop_requested() && piece->bytes == 0)
            error = error_set(ERROR_CANCELLED, "stopped while unpacking %s", load->file->path);
        if (!error)
            error = unpacker_step(unpacker, load->page->data + piece->bytes, limit - piece->bytes,
                                  &more);
        piece->bytes += more;
    }
    load->ended = error == ERROR_END;
    piece->hash = XXH3_64bits(load->page->data, piece->bytes);
    return load->ended ? OK : error;
}

static enum error find_again(struct packed_load *load)
{
    const struct packed_piece *piece = &load->piece;
    enum error error = unpacker_read(&load->lane->unpacker, load->page->data, piece->bytes);
    if (!error && XXH3_64bits(load->page->data, piece->bytes) != piece->hash)
        return error_set(ERROR_INPUT,
                         "%s, byte %llu: unpacks to another text than before; was it written to?",
                         load->file->path, (unsigned long long)piece->packed_offset);
    return error;
}

enum error packed_load_run(struct packed_load *load)
{
    enum error error = stand(load);
    if (!error)
        error = pass_text(load);
    if (!error)
        error = load->found ? find_text(load) : find_again(load);
    return error;
}
