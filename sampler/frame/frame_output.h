/* SPDX-License-Identifier: MIT */
/*
 * Writes a frame file (frame_file.h): first all sections are planned in file order, then filled
 * (section_writer.h), by several threads at once, and finally the head is written. The file is
 * written aside and gets its name when it is complete; leftovers of a killed build are removed.
 * Without a path it is in memory.
 */
#ifndef SAMPLER_FRAME_FRAME_OUTPUT_H
#define SAMPLER_FRAME_FRAME_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"

struct frame_output;

/* `path` NULL: in memory. */
enum error frame_output_new(const char *path, struct frame_output **ret_output) MUST_CHECK;
/* Removes everything unless it was committed. NULL is legal. */
void frame_output_free(struct frame_output *output);

/* `first` as in struct frame_section. */
void frame_output_plan(struct frame_output *output, uint32_t kind, uint64_t count, unsigned width,
                       uint64_t first);
/* After the last plan: reserves the disk space, so that a full disk fails here: ERROR_NO_SPACE. */
enum error frame_output_reserve(struct frame_output *output) MUST_CHECK;

/* Total bytes of all sections, and the bytes written so far. Any thread. */
uint64_t frame_output_bytes(const struct frame_output *output);
uint64_t frame_output_written(const struct frame_output *output);

/* Makes every thread's next frame_output_put() fail with ERROR_CANCELLED. Any thread. */
void frame_output_cancel(struct frame_output *output);

/* The planned section of this kind. */
struct frame_section *frame_output_section(struct frame_output *output, uint32_t kind);

/* Writes bytes of a section at their file offset and starts writeback at once. ERROR_CANCELLED
 * after stop_requested(). Any thread. */
enum error frame_output_put(struct frame_output *output, const void *bytes, size_t length,
                            uint64_t offset) MUST_CHECK;

/* Writes the head, fsyncs, renames. */
enum error frame_output_commit(struct frame_output *output, int64_t units,
                               const struct frame_digest *digest) MUST_CHECK;
/* In memory: writes the head and maps the whole, without a path. */
enum error frame_output_map(struct frame_output *output, int64_t units,
                            const struct frame_digest *digest,
                            struct mapped_file *ret_file) MUST_CHECK;

#endif
