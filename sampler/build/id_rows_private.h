/* SPDX-License-Identifier: MIT */
/* What rows by id are sorted with; for id_rows.c and id_table.c only. */
#ifndef SAMPLER_BUILD_ID_ROWS_PRIVATE_H
#define SAMPLER_BUILD_ID_ROWS_PRIVATE_H

#include <stdbool.h>

#include "sampler/build/id_rows.h"
#include "sampler/build/spool_team.h"

struct id_rows {
    struct spool_team team;
    struct sort_arena *arena;
    struct section_writer *writer;
    struct id_twice *twice;
};

/* Ids from `first` on, `last` included (a range may hold all 2^63). */
struct id_range {
    uint64_t first, last;
    uint64_t rows; /* that have one of them: decides between pairs and a table */
};

/* The rows of one range, put down behind those of the ranges before, by a table of rows by id: for
 * ids that lie close together. */
enum error id_table_write(struct id_rows *all, const struct id_range *range) MUST_CHECK;

#endif
