/* SPDX-License-Identifier: MIT */
/*
 * How a file is packed, gzip or zstd: a struct of functions for each. A state of theirs turns bytes
 * into text in order, from the file's beginning or from a point that was marked on the way.
 *
 * gzip (RFC 1952, one member or several) can be entered where a deflate block begins, given the 32
 * KiB of text in front of it and how many bits of a byte the block before left over. zstd (RFC
 * 8878) can be entered where a frame begins; frames that are skipped hold no text.
 *
 * A state belongs to one thread at a time. What it was packed from is checked (CRC-32 of gzip,
 * XXH64 of zstd, where the frame has it) when a member or frame is unpacked from its beginning to
 * its end.
 */
#ifndef LOADER_UNPACK_PACKING_H
#define LOADER_UNPACK_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Larger zstd windows are refused: a state keeps a window in memory. */
#define UNPACK_WINDOW_LOG_LIMIT 27

/* Where unpacking may begin. */
struct unpack_point {
    uint64_t packed_offset; /* the byte to begin at */
    bool inner;             /* within a gzip member: its check cannot be made from here */
    int bits;     /* the highest ones of the byte at packed_offset, which come first; 0: all */
    void *window; /* owned; packed itself (zstd); NULL: there is none */
    size_t window_bytes; /* of `window` */
};

void unpack_point_release(struct unpack_point *point);

/* Bytes in and out of one step, which leaves how many of either are left. */
struct unpack_step {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

/* Where a state stands after a step. */
enum unpack_place {
    UNPACK_WITHIN, /* nowhere in particular */
    UNPACK_INNER,  /* within a member, where mark() may be called */
    UNPACK_BETWEEN /* the same, and the file may end here: in front of a member or a frame */
};

struct packing {
    const char *name; /* "gzip" */
    enum error (*open)(void **ret_state) MUST_CHECK;
    void (*close)(void *state);
    /* From now on the bytes from point->packed_offset on come in. */
    enum error (*begin)(void *state, const struct unpack_point *point) MUST_CHECK;
    /* Goes on until there is no byte in, no room out, or a place for a mark. ERROR_INPUT: the bytes
     * are damaged; the message does not name the file. */
    enum error (*step)(void *state, struct unpack_step *step,
                       enum unpack_place *ret_place) MUST_CHECK;
    /* The place where the state stands; all of `ret_point` but packed_offset, where the next byte
     * that has not come in stands for the place. */
    enum error (*mark)(void *state, struct unpack_point *ret_point) MUST_CHECK;
    size_t (*memory_bytes)(const void *state);
};

extern const struct packing gzip_packing;
extern const struct packing zstd_packing;

/* By the first bytes of a file, whatever it is called; NULL: neither. */
const struct packing *packing_of(const uint8_t *head, size_t length);
#define PACKING_HEAD_BYTES 4

#endif
