/* SPDX-License-Identifier: MIT */
/*
 * Reads all rows of a store for a frame: one scan, with columns checked and spooled (spool.h).
 * Memory: the spools' limit, the label texts, and a few blocks of rows. Logs progress once a
 * second.
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

/* Scans the store at `uri`. Columns are spooled in `memory_bytes`, then in a file beside `path`
 * (NULL: in memory without limit). ERROR_INPUT names a bad row; ERROR_CANCELLED after
 * stop_requested(). */
enum error frame_ingest_open(struct frame_ingest *ingest, const char *uri, const char *path,
                             uint64_t memory_bytes) MUST_CHECK;
/* Legal for a zeroed one, and for a closed one. */
void frame_ingest_close(struct frame_ingest *ingest);

/* ERROR_INPUT naming the location of both rows. */
enum error frame_ingest_refuse_twice(struct frame_ingest *ingest,
                                     const struct id_twice *twice) MUST_CHECK;

/* True, at most once a second, if a line of progress is due. */
bool frame_ingest_is_due(struct frame_ingest *ingest);

#endif
