/* SPDX-License-Identifier: MIT */
/*
 * Rows as bytes for other programs. Three formats:
 *
 *   csv  a header id,label,FEATURE NAMES; then a line per row. Numbers in the shortest form that
 *        reads back as the same number; texts quoted where they must be (RFC 4180)
 *   npy  one structured array with the fields id ('<i8'), label ('<i8', '<f8' or '<U..' as the
 *        store's labels are) and x ('|u1' or '<f4', F of them): numpy.load() reads it
 *   raw  a record per row, without a header, little-endian: i64 id | f64 label | F features (u8 or
 *        f32). A text label is its number in the store's sorted list of labels
 *
 * If rows differ in length, csv has no feature names, and each line has as many fields as its row,
 * to be read with longest=any; npy has a field length ('<i8') before x, and pads shorter rows with
 * zeros; raw has i64 length before that many features.
 *
 * Weights (f64) and groups (like labels, i64 in raw) follow the label if requested. The label of a
 * store without labels is 0. One thread.
 */
#ifndef LOADER_TOOL_ROW_WRITER_H
#define LOADER_TOOL_ROW_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/output.h"
#include "loader/feed/feed.h"
#include "loader/store/store.h"

#define ROW_WRITER_FORMATS "csv|npy|raw"

struct row_writer;

/* A row's parts in addition to label and features. */
struct row_extras {
    bool weights, groups;
    const char *const *group_texts; /* borrowed; NULL: groups are integers */
    size_t group_text_count;
};

struct row_values {
    int64_t id;
    double label, weight;
    int64_t group; /* a number into group_texts, if there are any */
    const void *features;
    size_t length; /* of them */
};

/* Implemented by each format. */
struct row_writer_ops {
    const char *name;
    /* Before the first row; may leave room that finish() fills. */
    enum error (*begin)(struct row_writer *writer) MUST_CHECK;
    enum error (*row)(struct row_writer *writer, const struct row_values *row) MUST_CHECK;
    enum error (*finish)(struct row_writer *writer) MUST_CHECK;
};

/* Shared by all implementations. */
struct row_writer {
    const struct row_writer_ops *ops;
    const struct store_info *info; /* borrowed */
    struct row_extras extras;
    struct output *output; /* borrowed: receives the result */
    struct output *target; /* receives rows: `output`, or the spool */
    struct output *spool;  /* owned; NULL: not needed */
    size_t row_bytes;      /* of the features */
    size_t row_limit;      /* csv: limit of a row's bytes */
    size_t label_length;   /* npy: characters of the longest text label, */
    size_t group_length;   /* and of the longest group */
    char *header;          /* npy: owned */
    size_t header_bytes;   /* npy */
    uint64_t rows;         /* written so far */
};

/* `format` is one of ROW_WRITER_FORMATS. Writes the header, if there is one. `info` and `output`
 * must outlive the writer. */
enum error row_writer_open(const char *format, const struct store_info *info,
                           const struct row_extras *extras, struct output *output,
                           struct row_writer **ret_writer) MUST_CHECK;
/* NULL is legal. Without row_writer_finish() the output is incomplete: a truncated npy file has no
 * header. */
void row_writer_close(struct row_writer *writer);

/* Adds a batch in host memory, whose weights are doubles. */
enum error row_writer_add(struct row_writer *writer, const struct feed_batch *batch) MUST_CHECK;
/* Writes what is known only at the end, and flushes. */
enum error row_writer_finish(struct row_writer *writer) MUST_CHECK;

extern const struct row_writer_ops row_writer_csv;
extern const struct row_writer_ops row_writer_npy;

#endif
