/* SPDX-License-Identifier: MIT */
/*
 * gzip by zlib. Between two deflate blocks a mark takes the last 32 KiB of text, which the next
 * block may refer to, and how many bits of the last byte are unread. Started there, zlib reads raw
 * deflate data up to the member's end, whose checksum is skipped; the next member is read as a
 * whole.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/array.h"
#include "loader/unpack/packing.h"

#define WINDOW_BYTES 32768
#define WINDOW_LEVEL 1 /* text packs to a fifth, in a tenth of a millisecond */
#define WHOLE 31       /* zlib's windowBits: 32 KiB, gzip's header and check */
#define BARE (-15)     /* 32 KiB, deflate data alone */
#define CHECK_BYTES 8  /* CRC-32 and length, after a member */

struct gzip_state {
    z_stream stream;
    bool bare;
    bool member_ended;  /* a member was read to its end */
    int bits;           /* still to be used of the next input byte; 0: none */
    size_t check_bytes; /* still to be skipped after a bare member */
};

static enum error open_state(void **ret_state)
{
    struct gzip_state *state = array_new(1, sizeof(*state), "unpacking gzip");
    if (!state)
        return ERROR_MEMORY;
    if (inflateInit2(&state->stream, WHOLE) != Z_OK) {
        free(state);
        return error_set_memory(WINDOW_BYTES, "unpacking gzip");
    }
    *ret_state = state;
    return OK;
}

static void close_state(void *opaque)
{
    struct gzip_state *state = opaque;
    inflateEnd(&state->stream);
    free(state);
}

static enum error reset(struct gzip_state *state, bool bare)
{
    state->bare = bare;
    state->stream.data_type = 0; /* zlib does not set it */
    return inflateReset2(&state->stream, bare ? BARE : WHOLE) == Z_OK
               ? OK
               : error_set_memory(WINDOW_BYTES, "unpacking gzip");
}

static enum error set_window(struct gzip_state *state, const struct unpack_point *point)
{
    uint8_t window[WINDOW_BYTES];
    size_t bytes = ZSTD_decompress(window, sizeof(window), point->window, point->window_bytes);
    if (ZSTD_isError(bytes) || inflateSetDictionary(&state->stream, window, (uInt)bytes) != Z_OK)
        return error_set_memory(WINDOW_BYTES, "a window of gzip");
    return OK;
}

static enum error begin(void *opaque, const struct unpack_point *point)
{
    struct gzip_state *state = opaque;
    state->member_ended = false;
    state->check_bytes = 0;
    state->bits = point->bits;
    enum error error = reset(state, point->inner);
    return error || !point->window ? error : set_window(state, point);
}

/* The first bits of a block that begins within a byte. */
static void take_bits(struct gzip_state *state, struct unpack_step *step)
{
    inflatePrime(&state->stream, state->bits, step->in[0] >> (8 - state->bits));
    state->bits = 0;
    step->in++;
    step->in_bytes--;
}

static enum error pass_check(struct gzip_state *state, struct unpack_step *step,
                             enum unpack_place *ret_place)
{
    size_t bytes = step->in_bytes < state->check_bytes ? step->in_bytes : state->check_bytes;
    step->in_bytes -= bytes;
    state->check_bytes -= bytes;
    if (state->check_bytes > 0)
        return OK;
    *ret_place = UNPACK_BETWEEN;
    return reset(state, false);
}

static enum error end_member(struct gzip_state *state, enum unpack_place *ret_place)
{
    state->member_ended = true;
    if (state->bare) {
        state->check_bytes = CHECK_BYTES;
        return OK;
    }
    *ret_place = UNPACK_BETWEEN;
    return reset(state, false);
}

static enum error refuse(const struct gzip_state *state, int result)
{
    const char *reason = state->stream.msg ? state->stream.msg : "no reason given";
    if (result == Z_MEM_ERROR)
        return error_set_memory(WINDOW_BYTES, "unpacking gzip");
    if (state->member_ended && strcmp(reason, "incorrect header check") == 0)
        return error_set(ERROR_INPUT,
                         "a gzip member ends here, and what follows is not another one");
    return error_set(ERROR_INPUT, "the gzip data is damaged (%s)", reason);
}

static enum error inflate_some(struct gzip_state *state, struct unpack_step *step,
                               enum unpack_place *ret_place)
{
    z_stream *stream = &state->stream;
    stream->next_in = (z_const Bytef *)step->in;
    stream->avail_in = (uInt)step->in_bytes;
    stream->next_out = step->out;
    stream->avail_out = (uInt)step->out_bytes;
    int result = inflate(stream, Z_BLOCK);
    step->in_bytes = stream->avail_in;
    step->out_bytes = stream->avail_out;
    if (result == Z_STREAM_END)
        return end_member(state, ret_place);
    if (result != Z_OK && result != Z_BUF_ERROR)
        return refuse(state, result);
    if ((stream->data_type & 128) && !(stream->data_type & 64)) /* a block's end, not the last's */
        *ret_place = UNPACK_INNER;
    return OK;
}

static enum error step_state(void *opaque, struct unpack_step *step, enum unpack_place *ret_place)
{
    struct gzip_state *state = opaque;
    *ret_place = UNPACK_WITHIN;
    if (state->bits > 0 && step->in_bytes == 0)
        return OK;
    if (state->bits > 0)
        take_bits(state, step);
    return state->check_bytes > 0 ? pass_check(state, step, ret_place)
                                  : inflate_some(state, step, ret_place);
}

/* Between members there is neither a window nor a bit left. */
static enum error mark(void *opaque, struct unpack_point *ret_point)
{
    struct gzip_state *state = opaque;
    uint8_t window[WINDOW_BYTES];
    uInt bytes = 0;
    *ret_point = (struct unpack_point){.window = NULL};
    if (!(state->stream.data_type & 128))
        return OK;
    ret_point->inner = true;
    ret_point->bits = state->stream.data_type & 7;
    if (inflateGetDictionary(&state->stream, window, &bytes) != Z_OK || bytes == 0)
        return OK;
    size_t room = ZSTD_compressBound(bytes);
    void *packed = array_new(room, 1, "a window of gzip");
    size_t length = packed ? ZSTD_compress(packed, room, window, bytes, WINDOW_LEVEL) : 0;
    if (!packed || ZSTD_isError(length)) {
        free(packed);
        return error_set_memory(room, "a window of gzip");
    }
    ret_point->window = array_new(length, 1, "a window of gzip");
    if (ret_point->window)
        memcpy(ret_point->window, packed, length);
    ret_point->window_bytes = length;
    free(packed);
    return ret_point->window ? OK : ERROR_MEMORY;
}

static size_t memory_bytes(const void *state)
{
    (void)state;
    return sizeof(struct gzip_state) + WINDOW_BYTES;
}

const struct packing gzip_packing = {
    .name = "gzip",
    .open = open_state,
    .close = close_state,
    .begin = begin,
    .step = step_state,
    .mark = mark,
    .memory_bytes = memory_bytes,
};
