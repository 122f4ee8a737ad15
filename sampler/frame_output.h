/*
 * A frame file (frame_file.h) while it is written: first all sections are planned, in the order of
 * the file, then each is written from front to back, several of them at once by different threads,
 * at last the head. In a file it is written aside and appears under its name when it is complete;
 * what a killed build left beside it is removed. Without a name it lies in memory.
 */
#ifndef SAMPLER_FRAME_OUTPUT_H
#define SAMPLER_FRAME_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame.h"
#include "sampler/frame_file.h"

struct frame_output;

/* `path` NULL: in memory. */
enum error frame_output_new(const char *path, struct frame_output **ret_output) MUST_CHECK;
/* Nothing is left of what was not committed. NULL is legal. */
void frame_output_free(struct frame_output *output);

/* `first` as in struct frame_section. */
void frame_output_plan(struct frame_output *output, uint32_t kind, uint64_t count, unsigned width,
                       uint64_t first);
/* After the last plan: takes the room, so that a full disk shows now: ERROR_NO_SPACE. */
enum error frame_output_reserve(struct frame_output *output) MUST_CHECK;

/* Bytes of all sections, and those of them written so far. Any thread. */
uint64_t frame_output_bytes(const struct frame_output *output);
uint64_t frame_output_written(const struct frame_output *output);

/* Lets every thread's next flush fail with ERROR_CANCELLED. Any thread. */
void frame_output_cancel(struct frame_output *output);

/* One section that fills; belongs to one thread. */
struct section_writer {
    struct frame_output *output;
    struct frame_section *section;
    uint8_t *pending; /* owned */
    size_t pending_bytes;
    uint64_t done; /* bytes handed to the system */
    void *sum;     /* owned; the checksum so far */
};

enum error section_open(struct section_writer *writer, struct frame_output *output,
                        uint32_t kind) MUST_CHECK;
/* ERROR_CANCELLED after stop_requested(). */
enum error section_add(struct section_writer *writer, const void *bytes, size_t length) MUST_CHECK;
/* Room for `length` (at most SECTION_ROOM_BYTES) bytes behind what was added, for the caller to
 * fill (aligned as `length` is); they count as added. */
#define SECTION_ROOM_BYTES ((size_t)1 << 18)
enum error section_room(struct section_writer *writer, size_t length, void **ret_room) MUST_CHECK;
/* All that was planned must have been added. */
enum error section_finish(struct section_writer *writer) MUST_CHECK;
/* Legal after a failed open, and after finish. */
void section_close(struct section_writer *writer);

/* A section that is there as a whole: open, add, finish, close. */
enum error section_write(struct frame_output *output, uint32_t kind, const void *data) MUST_CHECK;

/* Writes the head, fsyncs, renames. */
enum error frame_output_commit(struct frame_output *output, int64_t units,
                               const struct frame_digest *digest) MUST_CHECK;
/* In memory: writes the head and maps it all, without a path. */
enum error frame_output_map(struct frame_output *output, int64_t units,
                            const struct frame_digest *digest,
                            struct mapped_file *ret_file) MUST_CHECK;

#endif
