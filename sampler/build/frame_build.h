/* SPDX-License-Identifier: MIT */
/*
 * Frames from stores, at any size: the store is scanned once into columns put aside
 * (frame_ingest.h), then the frame file is written from them: columns by one thread, and what is
 * sorted by a team of as many as there are CPUs. frame_build() makes the same file in memory.
 */
#ifndef SAMPLER_BUILD_FRAME_BUILD_H
#define SAMPLER_BUILD_FRAME_BUILD_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

#define FRAME_MEMORY_LEAST ((uint64_t)64 << 20)

/* All rows of the store at `uri`; progress to the log, every second. Fails on no units, ids out of
 * range or twice (naming both rows), an empty label; ERROR_CANCELLED after stop_requested().
 * Memory: 5 to 20 bytes a unit (label 1 to 4, its stratum's rows 4; 4 to 8 for ids that are not
 * consecutive, 4 more where they do not ascend), weights and groups besides; while it is built, ids
 * and labels once more, and 4 to 32 bytes a unit to sort with. `range:` costs none. In bounded
 * memory: frame_build_file(). */
enum error frame_build(const char *uri, struct frame **ret_frame) MUST_CHECK;
/* The same by reading the store row by row, also for `range:` (tests compare the two). */
enum error frame_build_by_scan(const char *uri, struct frame **ret_frame) MUST_CHECK;
/* The frame file of the store at `uri` (several: one a line), all or nothing: written aside,
 * fsynced, renamed; what a killed build left beside it is removed. Memory stays below
 * `memory_bytes` (at least FRAME_MEMORY_LEAST; 0: a quarter of the
 * machine's memory, or of what the control group allows, at most 2 GiB), but for the texts of the
 * labels and 20 bytes a label; what does not fit is put into a file beside `path` that has no name.
 * Errors as frame_build(); ERROR_NO_SPACE leaves nothing behind. */
enum error frame_build_file(const char *uri, const char *path, uint64_t memory_bytes) MUST_CHECK;
#endif
