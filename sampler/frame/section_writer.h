/* SPDX-License-Identifier: MIT */
/*
 * Writes one section of a frame file from front to back: one thread adds to it, or the members of a
 * team each write pieces, with the checksum computed over the pieces in order.
 */
#ifndef SAMPLER_FRAME_SECTION_WRITER_H
#define SAMPLER_FRAME_SECTION_WRITER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame_output.h"

/* The size of pieces at which writing is fastest. */
#define SECTION_PIECE_BYTES ((size_t)1 << 20)

struct section_writer {
    struct frame_output *output;
    struct frame_section *section;
    uint8_t *pending; /* owned; added bytes that do not fill a piece yet */
    size_t pending_bytes;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t turn;
    uint64_t pieces; /* that were written */
    uint64_t bytes;  /* in these */
    void *sum;       /* owned; the checksum so far */
};

enum error section_open(struct section_writer *writer, struct frame_output *output,
                        uint32_t kind) MUST_CHECK;

/* Writes piece `piece` of the section, counted from 0 over everything put and added: waits for
 * earlier pieces. All of a team's pieces must be put, whatever happens, or others wait forever;
 * after a failure no more are written. ERROR_CANCELLED after stop_requested(). Any thread. */
enum error section_put(struct section_writer *writer, uint64_t piece, const void *bytes,
                       size_t length) MUST_CHECK;

/* Appends after everything put so far; one thread at a time. */
enum error section_add(struct section_writer *writer, const void *bytes, size_t length) MUST_CHECK;
/* Room for `length` (at most SECTION_ROOM_BYTES) bytes after what was added, for the caller to fill
 * (aligned like `length`); counts as added. */
#define SECTION_ROOM_BYTES ((size_t)1 << 18)
enum error section_room(struct section_writer *writer, size_t length, void **ret_room) MUST_CHECK;

/* Everything planned must have been put or added. */
enum error section_finish(struct section_writer *writer) MUST_CHECK;
/* Legal after a failed open, and after finish. */
void section_close(struct section_writer *writer);

/* A section that is complete in memory: open, put, finish, close. */
enum error section_write(struct frame_output *output, uint32_t kind, const void *data) MUST_CHECK;

#endif
