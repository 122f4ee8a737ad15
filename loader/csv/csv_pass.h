/* SPDX-License-Identifier: MIT */
/*
 * One pass over a CSV file: several threads process blocks of whole records; the caller's thread
 * takes them in file order.
 *
 *   every thread     reads the next block, waits for its turn to cut it, then work() on it
 *   caller's thread  take() of block 0, 1, 2, ... first, as soon as the next one is there; progress
 *                    to the log; stops on SIGTERM
 *
 * The end of a packed file's text is unknown until a block reaches it: until then there is always
 * another block, and one that begins after the end is empty.
 *
 * Memory is bounded: a fixed number of slots, each with one block (csv_block.h, or one long record)
 * and one result. The most recently used slot is reused first: it is still in the cache. Small
 * files, and all files on machines with one CPU, are processed by the caller's thread alone.
 */
#ifndef LOADER_CSV_CSV_PASS_H
#define LOADER_CSV_CSV_PASS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/csv/csv_block.h"

struct csv_pass {
    const char *what; /* "reading", for the log */
    bool quiet;       /* do not log progress */
    size_t result_bytes;
    /* `result` is zeroed once; later it holds what work() left for an earlier block. `release`
     * NULL: nothing to do. Errors of work() end the pass when its block's turn comes. */
    enum error (*work)(void *context, void *result, struct csv_block *block);
    enum error (*take)(void *context, void *result, const struct csv_block *block);
    void (*release)(void *context, void *result);
    void *context;
};

enum error csv_pass_run(const struct csv_pass *pass, const struct csv_source *source) MUST_CHECK;

#endif
