/*
 * Frames from stores, at any size: the store is scanned once into columns put aside
 * (frame_ingest.h), then the frame file is written from them: columns by one thread, and what is
 * sorted by a team of as many as there are CPUs. frame_build() in frame.h makes the same file in
 * memory.
 */
#ifndef SAMPLER_BUILD_FRAME_BUILD_H
#define SAMPLER_BUILD_FRAME_BUILD_H

#include <stdint.h>

#include "common/error.h"

#define FRAME_MEMORY_LEAST ((uint64_t)64 << 20)

/* The frame file of the store at `uri` (several: one a line), all or nothing: written aside,
 * fsynced, renamed; what a killed build left beside it is removed. Memory stays below
 * `memory_bytes` (at least FRAME_MEMORY_LEAST; 0: frame_build_memory()), but for the texts of the
 * labels and 20 bytes a label; what does not fit is put into a file beside `path` that has no name.
 * Errors as frame_build(); ERROR_NO_SPACE leaves nothing behind. */
enum error frame_build_file(const char *uri, const char *path, uint64_t memory_bytes) MUST_CHECK;
/* The same by reading the store row by row, also for `range:`. */
enum error frame_build_file_by_scan(const char *uri, const char *path,
                                    uint64_t memory_bytes) MUST_CHECK;

/* A sane share: a quarter of the machine's memory, or of what the control group allows, at most
 * 2 GiB. */
uint64_t frame_build_memory(void);

#endif
