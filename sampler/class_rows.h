/*
 * The rows of a column of classes sorted by (class, row), which is FRAME_LABEL_ROWS: a counting
 * sort in as much memory as is given, the codes being read once for each part of the result.
 *
 * Dimensions: N units, L classes.
 */
#ifndef SAMPLER_CLASS_ROWS_H
#define SAMPLER_CLASS_ROWS_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/frame_output.h"
#include "sampler/spool.h"

/* Writes the section (width packed_width(N - 1)) without finishing it. Code c of the spool is the
 * class ranks[c]; starts [L + 1] are the classes' first places. Besides memory_bytes it takes 8
 * bytes a class. */
enum error class_rows_write(const struct spool *codes, const uint32_t *ranks,
                            const uint64_t *starts, uint32_t count, uint64_t memory_bytes,
                            struct section_writer *writer) MUST_CHECK;

#endif
