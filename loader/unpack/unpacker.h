/* SPDX-License-Identifier: MIT */
/*
 * A packed file, unpacked in order from a point: packed bytes come through a source_file, which
 * retries EIO and ESTALE and checks that the file still is what it was. One thread at a time.
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
    uint64_t input_end;           /* the byte of the file behind the input */
    size_t input_at, input_bytes; /* what of `input` is still to be unpacked */
    enum unpack_place place;
};

/* Stands at the file's beginning. */
enum error unpacker_open(struct unpacker *unpacker, const struct packing *packing, const char *path,
                         const struct file_identity *identity) MUST_CHECK;
void unpacker_close(struct unpacker *unpacker);
/* Stands at the point. When it fails only close and begin are legal. */
enum error unpacker_begin(struct unpacker *unpacker, const struct unpack_point *point) MUST_CHECK;

/* Up to `bytes` of text; stops where a point can be marked (`place`), perhaps with no text.
 * ERROR_END at the file's end. ERROR_INPUT naming file and byte: it is damaged or cut off, or
 * something else follows its last member or frame. */
enum error unpacker_step(struct unpacker *unpacker, void *out, size_t bytes,
                         size_t *ret_bytes) MUST_CHECK;
/* Exactly `bytes` of text: ERROR_INPUT at the file's end. */
enum error unpacker_read(struct unpacker *unpacker, void *out, size_t bytes) MUST_CHECK;

/* The byte of the file that comes next. */
uint64_t unpacker_packed_offset(const struct unpacker *unpacker);
/* Where it stands, which is no UNPACK_WITHIN; the caller releases the point. */
enum error unpacker_mark(struct unpacker *unpacker, struct unpack_point *ret_point) MUST_CHECK;

#endif
