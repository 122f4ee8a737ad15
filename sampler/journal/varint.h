/* SPDX-License-Identifier: MIT */
/* Integers as LEB128 bytes: seven bits per byte, low ones first; signed ones zigzag. At most
 * VARINT_BYTES each. */
#ifndef SAMPLER_JOURNAL_VARINT_H
#define SAMPLER_JOURNAL_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VARINT_BYTES 10

static inline uint8_t *varint_write(uint8_t *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

static inline uint8_t *varint_write_signed(uint8_t *out, int64_t value)
{
    return varint_write(out, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

/* Bytes to read, from the front. */
struct varint_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed; /* the bytes ended within a number, or it has more than 64 bits; reads give 0 */
};

static inline uint64_t varint_read(struct varint_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    reader->failed = true;
    return 0;
}

static inline int64_t varint_read_signed(struct varint_reader *reader)
{
    uint64_t value = varint_read(reader);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

#endif
