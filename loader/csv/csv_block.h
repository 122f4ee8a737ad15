/* SPDX-License-Identifier: MIT */
/*
 * Pieces of a CSV file, worked on apart: a block is the records that begin in its stretch of the
 * file. Where the first one begins is only known once all in front of it were cut (a line end may
 * stand in quotes), so that a block is made in two steps: reading it and counting its lines, in any
 * order and by any thread, and cutting it, which takes no time, one after the other.
 */
#ifndef LOADER_CSV_CSV_BLOCK_H
#define LOADER_CSV_CSV_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/unpack/text_source.h"

/* A stretch: two of them and what is made of them stay in a processor's own cache. */
#define CSV_BLOCK_BYTES ((size_t)512 << 10)

/* The rows' part of a file: everything behind BOM and header. Shared by passes. */
struct csv_source {
    struct text_source text;
    uint64_t begin;     /* byte of the text where the rows begin */
    int64_t begin_line; /* its line, from 1 */
};

/* Opens, and finds begin and begin_line behind a byte order mark; refuses an empty text, and what
 * is UTF-16, or packed in a way that is not unpacked here. `path` is borrowed. */
enum error csv_source_init(struct csv_source *source, const char *path) MUST_CHECK;
void csv_source_release(struct csv_source *source);

/* Where a record begins. */
struct csv_place {
    uint64_t offset; /* in the text */
    int64_t line;    /* from 1 */
};

/* Zeroed: no memory yet. */
struct csv_block {
    char *data;         /* [length] and CSV_PADDING_BYTES, in `memory`; may be overwritten */
    size_t length;      /* whole records, each with its LF; 0: none begins here */
    uint64_t offset;    /* of `data` in the text */
    int64_t first_line; /* from 1 */
    int64_t lines;
    bool plain; /* no quote in it */

    char *memory; /* owned; [capacity] */
    size_t capacity;
    uint64_t stretch;     /* the byte of the text that memory[0] is */
    size_t stretch_bytes; /* records that begin in them are the block's */
    size_t held_bytes;    /* more, so that the last one is whole */
    bool at_end;          /* there is nothing behind them in the text */
};

/* Reads CSV_BLOCK_BYTES at `offset` (less at the text's end, nothing behind it) and counts their
 * lines. */
enum error csv_block_read(struct csv_block *block, struct text_file *file,
                          uint64_t offset) MUST_CHECK;
/* Finds the block's records: the first begins at *place, which moves behind the last. */
enum error csv_block_cut(struct csv_block *block, struct text_file *file,
                         struct csv_place *place) MUST_CHECK;
void csv_block_release(struct csv_block *block);

/* The record at *at of the block (with LF); moves *at on. Blank records are skipped. NULL at
 * the block's end. `*line` is kept: lines of the block before *at, and *ret_line the record's. */
char *csv_block_next(const struct csv_block *block, char delimiter, size_t *at, int64_t *line,
                     size_t *ret_length, int64_t *ret_line);

#endif
