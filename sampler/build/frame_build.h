/* SPDX-License-Identifier: MIT */
/*
 * Builds frames from stores, at any size: scans the store once into spooled columns
 * (frame_ingest.h), then writes the frame file from them: one thread writes the columns, and a team
 * with one thread per CPU the sorted sections. frame_build() makes the same file in memory.
 */
#ifndef SAMPLER_BUILD_FRAME_BUILD_H
#define SAMPLER_BUILD_FRAME_BUILD_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

#define FRAME_MEMORY_LEAST ((uint64_t)64 << 20)

/* All rows of the store at `uri`; logs progress every second. Fails if there are no units, an id is
 * out of range or occurs twice (naming both rows), or a label is empty; ERROR_CANCELLED after
 * stop_requested(). Memory: 5 to 20 bytes per unit (label 1 to 4, its stratum's rows 4; 4 to 8 for
 * non-consecutive ids, 4 more if they do not ascend), plus weights and groups; while building, ids
 * and labels a second time, and 4 to 32 bytes per unit for sorting. `range:` needs none. In bounded
 * memory: frame_build_file(). */
enum error frame_build(const char *uri, struct frame **ret_frame) MUST_CHECK;
/* The same, reading the store row by row, also for `range:` (tests compare the two). */
enum error frame_build_by_scan(const char *uri, struct frame **ret_frame) MUST_CHECK;
/* Writes the frame file of the store at `uri` (several: one per line), all or nothing: writes
 * aside, fsyncs, renames; removes what a killed build left beside it. Memory stays below
 * `memory_bytes` (at least FRAME_MEMORY_LEAST; 0: a quarter of the machine's memory, or of the
 * control group's limit, at most 2 GiB), except the label texts and 20 bytes per label; the rest
 * goes to an unnamed file beside `path`. Errors as frame_build(); ERROR_NO_SPACE leaves nothing
 * behind. */
enum error frame_build_file(const char *uri, const char *path, uint64_t memory_bytes) MUST_CHECK;
#endif
