/* SPDX-License-Identifier: MIT */
/*
 * How a file is packed, gzip or zstd: a struct of functions for each. A state turns bytes into text
 * in order, from the beginning of the file or from a point marked on the way.
 *
 * gzip (RFC 1952, one or several members) can be entered where a deflate block begins, given the
 * preceding 32 KiB of text and the number of bits that the previous block left over. zstd (RFC
 * 8878) can be entered where a frame begins; skippable frames hold no text.
 *
 * A state belongs to one thread at a time. The checksum (CRC-32 of gzip, XXH64 of zstd, if the
 * frame has it) is verified when a member or frame is unpacked from its beginning to its end.
 */
#ifndef LOADER_UNPACK_PACKING_H
#define LOADER_UNPACK_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Larger zstd windows are refused: a state keeps a window in memory. */
#define UNPACK_WINDOW_LOG_LIMIT 27

/* Where unpacking can begin. */
struct unpack_point {
    uint64_t packed_offset; /* the byte to begin at */
    bool inner;             /* within a gzip member: its checksum cannot be verified from here */
    int bits;     /* the highest bits of the byte at packed_offset, which come first; 0: all */
    void *window; /* owned; itself compressed (zstd); NULL: none */
    size_t window_bytes; /* of `window` */
};

void unpack_point_release(struct unpack_point *point);

/* Input and output of one step, which updates what is left of each. */
struct unpack_step {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

/* A state's position after a step. */
enum unpack_place {
    UNPACK_WITHIN, /* not at a marking point */
    UNPACK_INNER,  /* within a member, where mark() may be called */
    UNPACK_BETWEEN /* the same, before a member or frame: the file may end here */
};

struct packing {
    const char *name; /* "gzip" */
    enum error (*open)(void **ret_state) MUST_CHECK;
    void (*close)(void *state);
    /* Input will come from point->packed_offset on. */
    enum error (*begin)(void *state, const struct unpack_point *point) MUST_CHECK;
    /* Continues until there is no input, no room, or a marking point. ERROR_INPUT: the bytes are
     * damaged; the message does not name the file. */
    enum error (*step)(void *state, struct unpack_step *step,
                       enum unpack_place *ret_place) MUST_CHECK;
    /* The state's position; sets all of `ret_point` but packed_offset, which the caller derives
     * from the next input byte. */
    enum error (*mark)(void *state, struct unpack_point *ret_point) MUST_CHECK;
    size_t (*memory_bytes)(const void *state);
};

extern const struct packing gzip_packing;
extern const struct packing zstd_packing;

/* Detects the packing by a file's first bytes, whatever its name; NULL: neither. */
const struct packing *packing_of(const uint8_t *head, size_t length);
#define PACKING_HEAD_BYTES 4

#endif
