/* SPDX-License-Identifier: MIT */
/*
 * The rows of a frame in the order of their ids (FRAME_IDS_BY_ID), made from a spool of ids in as
 * much memory as is given, by a team: range of ids by range of ids, the spool being read once for
 * each. Where ids lie close together a table of rows by id does it, else (id, row) pairs are
 * sorted.
 *
 * Finds ids that come twice: the smallest of them, and the first two rows that have it.
 */
#ifndef SAMPLER_BUILD_ID_ROWS_H
#define SAMPLER_BUILD_ID_ROWS_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/build/sort_arena.h"
#include "sampler/build/spool.h"
#include "sampler/frame/section_writer.h"

/* Rows (from 0) that have the same id. */
struct id_twice {
    uint64_t id;
    uint64_t rows[2];
};

/* Writes the section (width packed_width(N - 1)) without finishing it. ERROR_CONFLICT without a
 * message: *ret_twice. All ids lie in [smallest, ids->largest]. More than some 30 bytes a unit of
 * `arena` bring nothing; less costs passes over the ids. */
enum error id_rows_write(const struct spool *ids, uint64_t smallest, struct sort_arena *arena,
                         struct section_writer *writer, struct id_twice *ret_twice) MUST_CHECK;

#endif
