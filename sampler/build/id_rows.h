/* SPDX-License-Identifier: MIT */
/*
 * Sorts the rows of a frame by id (FRAME_IDS_BY_ID), from a spool of ids, by a team in bounded
 * memory: one range of ids after another, reading the spool once for each. A dense range uses a
 * table of rows by id, others sort (id, row) pairs.
 *
 * Detects duplicate ids: reports the smallest, and the first two rows that have it.
 */
#ifndef SAMPLER_BUILD_ID_ROWS_H
#define SAMPLER_BUILD_ID_ROWS_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/build/sort_arena.h"
#include "sampler/build/spool.h"
#include "sampler/frame/section_writer.h"

/* Rows (from 0) with the same id. */
struct id_twice {
    uint64_t id;
    uint64_t rows[2];
};

/* Writes the section (width packed_width(N - 1)) without finishing it. ERROR_CONFLICT without a
 * message: a duplicate id, *ret_twice. All ids lie in [smallest, ids->largest]. More than about 30
 * bytes of `arena` per unit gains nothing; less costs more passes over the ids. */
enum error id_rows_write(const struct spool *ids, uint64_t smallest, struct sort_arena *arena,
                         struct section_writer *writer, struct id_twice *ret_twice) MUST_CHECK;

#endif
