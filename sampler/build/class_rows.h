/* SPDX-License-Identifier: MIT */
/*
 * Sorts the rows of a column of categories by (category, row), for FRAME_LABEL_ROWS: a counting
 * sort by a team in bounded memory, which reads the codes once to count them and once for each part
 * of the result.
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

/* Writes the section (width packed_width(N - 1)) without finishing it. Code c of the spool is
 * category ranks[c]; starts [L + 1] are the categories' first places. Uses 8 bytes per category
 * besides `arena`. */
enum error class_rows_write(const struct spool *codes, const uint32_t *ranks,
                            const uint64_t *starts, uint32_t count, struct sort_arena *arena,
                            struct section_writer *writer) MUST_CHECK;

#endif
