/* SPDX-License-Identifier: MIT */
/*
 * The rows of a column of categories sorted by (category, row), which is FRAME_LABEL_ROWS: a
 * counting sort in as much memory as is given, by a team, the codes being read once to count them
 * and once for each part of the result.
 *
 * Dimensions: N units, L categories.
 */
#ifndef SAMPLER_BUILD_CLASS_ROWS_H
#define SAMPLER_BUILD_CLASS_ROWS_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/build/sort_arena.h"
#include "sampler/build/spool.h"
#include "sampler/frame/section_writer.h"

/* Writes the section (width packed_width(N - 1)) without finishing it. Code c of the spool is the
 * category ranks[c]; starts [L + 1] are the categories' first places. Besides `arena` it takes 8
 * bytes a category. */
enum error class_rows_write(const struct spool *codes, const uint32_t *ranks,
                            const uint64_t *starts, uint32_t count, struct sort_arena *arena,
                            struct section_writer *writer) MUST_CHECK;

#endif
