/* SPDX-License-Identifier: MIT */
/* State of sorting rows by id; for id_rows.c and id_table.c only. */
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

/* Ids from `first` to `last`, inclusive (a range may hold all 2^63). */
struct id_range {
    uint64_t first, last;
    uint64_t rows; /* with ids in the range: decides between pairs and a table */
};

/* Writes the rows of one range after those of the previous ranges, by a table of rows by id: for
 * dense ids. */
enum error id_table_write(struct id_rows *all, const struct id_range *range) MUST_CHECK;

#endif
