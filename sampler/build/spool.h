/* SPDX-License-Identifier: MIT */
/*
 * A column of unsigned integers that is written once, from row 0 on, and then read from the front
 * any number of times. Leading rows that follow a rule cost nothing: those that count up (first,
 * first + 1, ...) or cycle (0 ... period - 1, 0 ...). All others are stored in chunks of
 * SPOOL_CHUNK values, each as wide as its largest value needs: in memory while the spools of one
 * struct spool_store have some left, then in an unnamed file.
 *
 * Threads: one writes; after that any number read, each with its own cursor (spool_cursor.h).
 */
#ifndef SAMPLER_BUILD_SPOOL_H
#define SAMPLER_BUILD_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/build/spool_store.h"

#define SPOOL_CHUNK 16384

struct spool_chunk {
    void *data;      /* in an arena; NULL: in the file */
    uint64_t offset; /* in the file */
    uint32_t count;
    uint32_t width; /* bytes per value: 1, 2, 4, 8 */
};

struct spool {
    struct spool_store *store;
    const char *what; /* "the units' ids", for messages; borrowed */
    uint64_t rows;
    uint64_t largest; /* of all values outside `open`; 0 if there are none */
    uint64_t rule_rows, rule_first;
    uint64_t rule_period; /* 0: counts up from rule_first; else cycles from 0 */
    bool is_round;        /* the rule being tried is cyclic */
    uint64_t *open;       /* owned; [SPOOL_CHUNK]: the chunk being filled */
    size_t open_count;
    void *narrowed;             /* owned; a chunk to be written to the file */
    struct spool_chunk *chunks; /* owned; [chunk_count] */
    size_t chunk_count, chunk_capacity;
};

/* `is_round`: detects cyclic values, else values that count up. */
enum error spool_init(struct spool *spool, struct spool_store *store, bool is_round,
                      const char *what) MUST_CHECK;
void spool_release(struct spool *spool);

/* ERROR_NO_SPACE and ERROR_IO name the purpose of the file. */
enum error spool_add(struct spool *spool, const uint64_t *values, size_t count) MUST_CHECK;
/* Closes the last chunk: nothing may be added afterwards. */
enum error spool_finish(struct spool *spool) MUST_CHECK;

/* Does the rule hold for all rows? */
static inline bool spool_is_ruled(const struct spool *spool)
{
    return spool->rule_rows == spool->rows;
}

#endif
