/* SPDX-License-Identifier: MIT */
/*
 * All rows of a store on their way into a frame: one scan, its columns checked and put aside
 * (spool.h). Memory: what the spools may take, the texts of the labels, and a few blocks of rows.
 * Progress to the log, a line a second.
 */
#ifndef SAMPLER_BUILD_FRAME_INGEST_H
#define SAMPLER_BUILD_FRAME_INGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"
#include "sampler/build/class_column.h"
#include "sampler/build/id_rows.h"
#include "sampler/build/spool.h"

struct frame_ingest {
    struct store *store;           /* owned */
    const struct store_info *info; /* of the store */
    struct spool_store aside;
    struct spool ids;
    uint64_t smallest_id;
    int64_t last_id;
    bool is_ascending;
    bool has_labels, has_groups, has_weights;
    struct class_column labels, groups;
    struct spool weights; /* bits of doubles */
    uint64_t *block;      /* owned; a block's weights */
    size_t block_capacity;
    int64_t start_ns, told_ns;
};

/* Scans the store at `uri`. Columns are put aside in `memory_bytes`, then in a file beside `path`
 * (NULL: in memory whatever it takes). ERROR_INPUT names a bad row; ERROR_CANCELLED after
 * stop_requested(). */
enum error frame_ingest_open(struct frame_ingest *ingest, const char *uri, const char *path,
                             uint64_t memory_bytes) MUST_CHECK;
/* Legal for a zeroed one. */
void frame_ingest_close(struct frame_ingest *ingest);

/* ERROR_INPUT naming where both rows stand. */
enum error frame_ingest_refuse_twice(struct frame_ingest *ingest,
                                     const struct id_twice *twice) MUST_CHECK;

/* At most once a second: true when it is time for a line of progress. */
bool frame_ingest_is_due(struct frame_ingest *ingest);

#endif
