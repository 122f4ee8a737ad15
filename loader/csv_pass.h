/*
 * One pass over a CSV file: blocks of whole records, worked on by several threads, taken in file
 * order by the caller's thread.
 *
 *   worker threads   read the next block (one at a time, in file order), then work() on it
 *   caller's thread  take() of block 0, 1, 2, ...; progress to the log; stops on SIGTERM
 *
 * Memory is bounded: a fixed number of slots, each with one block (1 MiB, or one long record) and
 * one result. Small files, and machines with one CPU, are worked on in the caller's thread.
 */
#ifndef LOADER_CSV_PASS_H
#define LOADER_CSV_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/csv_split.h"
#include "loader/source_file.h"

/* The rows' part of a file: everything behind BOM and header. Immutable; shared by passes. */
struct csv_source {
    const char *path;
    struct file_identity identity;
    uint64_t begin;     /* byte where the rows begin */
    int64_t begin_line; /* its line, from 1 */
};

struct csv_block {
    char *data;    /* [length] and CSV_PADDING_BYTES; may be overwritten by work() */
    size_t length; /* whole records, each with its LF */
    size_t capacity;
    uint64_t offset;    /* in the file */
    int64_t first_line; /* from 1 */
    int64_t lines;
    bool plain; /* no quote in it */
};

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

/* Opens, and finds begin and begin_line behind a byte order mark; refuses an empty file, and what
 * is compressed or UTF-16 instead of text. `path` is borrowed. */
enum error csv_source_init(struct csv_source *source, const char *path) MUST_CHECK;

/* Reads the block of whole records at `offset`; length 0 at the end of the file. */
enum error csv_block_read(struct csv_block *block, struct source_file *file, uint64_t offset,
                          int64_t first_line) MUST_CHECK;
void csv_block_release(struct csv_block *block);

/* The record at *at of the block (with LF); moves *at on. Blank records are passed over. NULL at
 * the block's end. `*line` is kept: lines of the block before *at, and *ret_line the record's. */
char *csv_block_next(const struct csv_block *block, char delimiter, size_t *at, int64_t *line,
                     size_t *ret_length, int64_t *ret_line);

#endif
