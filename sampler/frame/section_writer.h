/* SPDX-License-Identifier: MIT */
/*
 * One section of a frame file that fills, from front to back: by one thread that adds to it, or by
 * a team whose parts each put a piece down, the checksum running through the pieces in their order.
 */
#ifndef SAMPLER_FRAME_SECTION_WRITER_H
#define SAMPLER_FRAME_SECTION_WRITER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame_output.h"

/* A good size for pieces: the system is quickest with so much at a time. */
#define SECTION_PIECE_BYTES ((size_t)1 << 20)

struct section_writer {
    struct frame_output *output;
    struct frame_section *section;
    uint8_t *pending; /* owned; bytes added that are no piece yet */
    size_t pending_bytes;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t turn;
    uint64_t pieces; /* that were put */
    uint64_t bytes;  /* of them */
    void *sum;       /* owned; the checksum so far */
};

enum error section_open(struct section_writer *writer, struct frame_output *output,
                        uint32_t kind) MUST_CHECK;

/* Piece `piece` of the section, counted from 0 over all that is put and added: waits for those
 * before it. All of a team's pieces must be put, whatever happens, or others wait for ever; none is
 * written any more once one could not be. ERROR_CANCELLED after stop_requested(). Any thread. */
enum error section_put(struct section_writer *writer, uint64_t piece, const void *bytes,
                       size_t length) MUST_CHECK;

/* For one thread at a time: behind all that was put. */
enum error section_add(struct section_writer *writer, const void *bytes, size_t length) MUST_CHECK;
/* Room for `length` (at most SECTION_ROOM_BYTES) bytes behind what was added, for the caller to
 * fill (aligned as `length` is); they count as added. */
#define SECTION_ROOM_BYTES ((size_t)1 << 18)
enum error section_room(struct section_writer *writer, size_t length, void **ret_room) MUST_CHECK;

/* All that was planned must have been put or added. */
enum error section_finish(struct section_writer *writer) MUST_CHECK;
/* Legal after a failed open, and after finish. */
void section_close(struct section_writer *writer);

/* A section that is there as a whole: open, put, finish, close. */
enum error section_write(struct frame_output *output, uint32_t kind, const void *data) MUST_CHECK;

#endif
