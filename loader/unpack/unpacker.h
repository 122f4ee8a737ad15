/* SPDX-License-Identifier: MIT */
/*
 * Unpacks a packed file in order from a point: packed bytes come through a source_file, which
 * retries transient errors and checks that the file has not changed. One thread at a time.
 */
#ifndef LOADER_UNPACK_UNPACKER_H
#define LOADER_UNPACK_UNPACKER_H

#include "loader/store/source_file.h"
#include "loader/unpack/packing.h"

struct unpacker {
    const struct packing *packing;
    struct source_file file;
    void *state;
    uint8_t *input;               /* owned */
    uint64_t input_end;           /* file offset of the end of the input */
    size_t input_at, input_bytes; /* what is left of `input` */
    enum unpack_place place;
};

/* Positioned at the beginning of the file. */
enum error unpacker_open(struct unpacker *unpacker, const struct packing *packing, const char *path,
                         const struct file_identity *identity) MUST_CHECK;
void unpacker_close(struct unpacker *unpacker);
/* Moves to the point. On failure only close and begin are legal. */
enum error unpacker_begin(struct unpacker *unpacker, const struct unpack_point *point) MUST_CHECK;

/* Unpacks up to `bytes` of text; stops where a point can be marked (`place`), perhaps without text.
 * ERROR_END at the end of the file. ERROR_INPUT naming file and byte: damaged, truncated, or
 * followed by something else after the last member or frame. */
enum error unpacker_step(struct unpacker *unpacker, void *out, size_t bytes,
                         size_t *ret_bytes) MUST_CHECK;
/* Unpacks exactly `bytes` of text: ERROR_INPUT at the end of the file. */
enum error unpacker_read(struct unpacker *unpacker, void *out, size_t bytes) MUST_CHECK;

/* File offset of the next byte. */
uint64_t unpacker_packed_offset(const struct unpacker *unpacker);
/* Marks its position, which must not be UNPACK_WITHIN; the caller releases the point. */
enum error unpacker_mark(struct unpacker *unpacker, struct unpack_point *ret_point) MUST_CHECK;

#endif
