/* SPDX-License-Identifier: MIT */
/*
 * Splits a CSV file into blocks that are processed independently: a block is the records that begin
 * in its stretch of the file. Where the first one begins is known only once all before it were cut
 * (a line end may be inside quotes), so a block is made in two steps: reading it and counting its
 * lines, in any order and on any thread, and cutting it, which is quick, one after the other.
 */
#ifndef LOADER_CSV_CSV_BLOCK_H
#define LOADER_CSV_CSV_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/unpack/text_source.h"

/* Stretch size: two of them and their results fit in a processor's own cache. */
#define CSV_BLOCK_BYTES ((size_t)512 << 10)

/* The rows' part of a file: everything after BOM and header. Shared by passes. */
struct csv_source {
    struct text_source text;
    uint64_t begin;     /* offset in the text where the rows begin */
    int64_t begin_line; /* its line, from 1 */
};

/* Opens the file and finds begin and begin_line after a byte order mark; refuses an empty text,
 * UTF-16, and packed formats that are not supported. `path` is borrowed. */
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
    bool plain; /* has no quotes */

    char *memory; /* owned; [capacity] */
    size_t capacity;
    uint64_t stretch;     /* offset of memory[0] in the text */
    size_t stretch_bytes; /* records that begin in them belong to the block */
    size_t held_bytes;    /* more, to complete the last record */
    bool at_end;          /* the text ends with them */
};

/* Reads CSV_BLOCK_BYTES at `offset` (fewer at the end of the text, none after it) and counts their
 * lines. */
enum error csv_block_read(struct csv_block *block, struct text_file *file,
                          uint64_t offset) MUST_CHECK;
/* Finds the block's records: the first begins at *place, which moves to the end of the last. */
enum error csv_block_cut(struct csv_block *block, struct text_file *file,
                         struct csv_place *place) MUST_CHECK;
void csv_block_release(struct csv_block *block);

/* The record at *at of the block (with LF); advances *at. Skips blank records. NULL at the block's
 * end. *line counts the block's lines before *at; *ret_line is the record's. */
char *csv_block_next(const struct csv_block *block, char delimiter, size_t *at, int64_t *line,
                     size_t *ret_length, int64_t *ret_line);

#endif
