/* SPDX-License-Identifier: MIT */
/* Packed files, made in memory: gzip members, zstd frames, frames that are skipped. */
#ifndef TESTS_UNIT_PACKED_UNIT_H
#define TESTS_UNIT_PACKED_UNIT_H

#include <zlib.h>
#include <zstd.h>

#include "tests/unit/unit.h"

struct packed_bytes {
    uint8_t *data; /* free() it */
    size_t length;
};

static inline uint8_t *packed_room(struct packed_bytes *packed, size_t bytes)
{
    packed->data = realloc(packed->data, packed->length + bytes);
    assert_non_null(packed->data);
    return packed->data + packed->length;
}

static inline void add_packed_bytes(struct packed_bytes *packed, const void *bytes, size_t length)
{
    memcpy(packed_room(packed, length), bytes, length);
    packed->length += length;
}

/* `flush_bytes`: blocks of deflate end after so many bytes; 0: where zlib likes. */
static inline void add_gzip_member(struct packed_bytes *packed, const char *text, size_t length,
                                   int level, size_t flush_bytes)
{
    z_stream stream = {.next_in = (z_const Bytef *)text};
    size_t room = length + length / 8 + 4096;
    size_t done = 0;
    int result;
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_out = packed_room(packed, room);
    stream.avail_out = (uInt)room;
    do {
        size_t part = flush_bytes && length - done > flush_bytes ? flush_bytes : length - done;
        stream.avail_in = (uInt)part;
        done += part;
        result = deflate(&stream, done < length ? Z_SYNC_FLUSH : Z_FINISH);
    } while (done < length);
    assert_int_equal(result, Z_STREAM_END);
    packed->length += room - stream.avail_out;
    deflateEnd(&stream);
}

/* With a check of its text. */
static inline void add_zstd_frame(struct packed_bytes *packed, const char *text, size_t length,
                                  int level, int window_log)
{
    size_t room = ZSTD_compressBound(length);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ZSTD_inBuffer in = {.src = text, .size = length};
    ZSTD_outBuffer out = {.dst = packed_room(packed, room), .size = room};
    assert_int_equal(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0);
    packed->length += out.pos;
    ZSTD_freeCCtx(context);
}

static inline void add_skipped_frame(struct packed_bytes *packed, uint8_t kind, uint32_t bytes)
{
    uint8_t head[8] = {0x50 | kind, 0x2a, 0x4d, 0x18, bytes & 255, (uint8_t)(bytes >> 8), 0, 0};
    add_packed_bytes(packed, head, sizeof(head));
    memset(packed_room(packed, bytes), 0xa5, bytes);
    packed->length += bytes;
}

#endif
