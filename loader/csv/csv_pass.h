/* SPDX-License-Identifier: MIT */
/*
 * One pass over a CSV file: blocks of whole records, worked on by several threads, taken in file
 * order by the caller's thread.
 *
 *   every thread     reads the next block, waits for its turn to cut it, then work() on it
 *   caller's thread  take() of block 0, 1, 2, ... first, as soon as the next one is there; progress
 *                    to the log; stops on SIGTERM
 *
 * Where the text of a packed file ends is known once a block met it: until then there is always one
 * more, and one that begins behind the end is empty.
 *
 * Memory is bounded: a fixed number of slots, each with one block (csv_block.h, or one long record)
 * and one result. The slot that was used last is used first: it is still in the cache. Small files,
 * and machines with one CPU, are worked on in the caller's thread alone.
 */
#ifndef LOADER_CSV_CSV_PASS_H
#define LOADER_CSV_CSV_PASS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/csv/csv_block.h"

struct csv_pass {
    const char *what; /* "reading", for the log */
    bool quiet;       /* progress is not logged */
    size_t result_bytes;
    /* `result` is zeroed once; work() finds in it what it left for an earlier block. NULL
     * `release`: nothing to do. Errors of work() end the pass when its block's turn has come. */
    enum error (*work)(void *context, void *result, struct csv_block *block);
    enum error (*take)(void *context, void *result, const struct csv_block *block);
    void (*release)(void *context, void *result);
    void *context;
};

enum error csv_pass_run(const struct csv_pass *pass, const struct csv_source *source) MUST_CHECK;

#endif
