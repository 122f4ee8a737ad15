/* SPDX-License-Identifier: MIT */
/*
 * Rows as bytes for other programs. Three formats:
 *
 *   csv  a header id,label,FEATURE NAMES; then a line a row. Numbers in the shortest form that
 *        reads back as the same number; texts quoted where they must be (RFC 4180)
 *   npy  one structured array with the fields id ('<i8'), label ('<i8', '<f8' or '<U..' as the
 *        store's labels are) and x ('|u1' or '<f4', F of them): numpy.load() reads it
 *   raw  a record a row, without a header, little-endian: i64 id | f64 label | F features (u8 or
 *        f32). A text label is its number in the store's sorted list of labels
 *
 * Where rows differ in length, csv has no names of features, and in each line as many fields as its
 * row has, so that it is read with longest=any; npy has a field length ('<i8') in front of x, and
 * zeros behind a shorter row; raw has i64 length in front of that many features.
 *
 * Weights (f64) and groups (as labels are, i64 in raw) stand behind the label where they are
 * wanted. The label of a store without labels is 0. One thread.
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

/* What rows have besides label and features. */
struct row_extras {
    bool weights, groups;
    const char *const *group_texts; /* borrowed; NULL: groups are integers */
    size_t group_text_count;
};

struct row_values {
    int64_t id;
    double label, weight;
    int64_t group; /* a number into group_texts, where there are any */
    const void *features;
    size_t length; /* of them */
};

/* What a format implements. */
struct row_writer_ops {
    const char *name;
    /* Before the first row; may leave room that finish() fills. */
    enum error (*begin)(struct row_writer *writer) MUST_CHECK;
    enum error (*row)(struct row_writer *writer, const struct row_values *row) MUST_CHECK;
    enum error (*finish)(struct row_writer *writer) MUST_CHECK;
};

/* Every implementation works on this. */
struct row_writer {
    const struct row_writer_ops *ops;
    const struct store_info *info; /* borrowed */
    struct row_extras extras;
    struct output *output; /* borrowed: where the result goes */
    struct output *target; /* where rows go: `output`, or the spool */
    struct output *spool;  /* owned; NULL: none is needed */
    size_t row_bytes;      /* of the features */
    size_t row_limit;      /* csv: no row takes more */
    size_t label_length;   /* npy: characters of the longest text label, */
    size_t group_length;   /* and of the longest group */
    char *header;          /* npy: owned */
    size_t header_bytes;   /* npy */
    uint64_t rows;         /* written so far */
};

/* `format` is one of ROW_WRITER_FORMATS. Writes the header, where there is one. `info` and `output`
 * must outlive the writer. */
enum error row_writer_open(const char *format, const struct store_info *info,
                           const struct row_extras *extras, struct output *output,
                           struct row_writer **ret_writer) MUST_CHECK;
/* NULL is legal. What row_writer_finish() did not complete stays incomplete: a npy file that was
 * cut short has no header. */
void row_writer_close(struct row_writer *writer);

/* A batch in host memory, with weights that are doubles. */
enum error row_writer_add(struct row_writer *writer, const struct feed_batch *batch) MUST_CHECK;
/* Writes facts known only now, and flushes. */
enum error row_writer_finish(struct row_writer *writer) MUST_CHECK;

extern const struct row_writer_ops row_writer_csv;
extern const struct row_writer_ops row_writer_npy;

#endif
