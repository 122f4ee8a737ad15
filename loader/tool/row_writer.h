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
 * The label of a store without labels is 0. One thread.
 */
#ifndef LOADER_TOOL_ROW_WRITER_H
#define LOADER_TOOL_ROW_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/output.h"
#include "loader/store/store.h"

#define ROW_WRITER_FORMATS "csv|npy|raw"

struct row_writer;

/* What a format implements. */
struct row_writer_ops {
    const char *name;
    /* Before the first row; may leave room that finish() fills. */
    enum error (*begin)(struct row_writer *writer) MUST_CHECK;
    enum error (*row)(struct row_writer *writer, int64_t id, double label,
                      const void *features) MUST_CHECK;
    enum error (*finish)(struct row_writer *writer) MUST_CHECK;
};

/* Every implementation works on this. */
struct row_writer {
    const struct row_writer_ops *ops;
    const struct store_info *info; /* borrowed */
    struct output *output;         /* borrowed: where the result goes */
    struct output *target;         /* where rows go: `output`, or the spool */
    struct output *spool;          /* owned; NULL: none is needed */
    size_t row_bytes;              /* of the features */
    size_t row_limit;              /* csv: no row takes more */
    size_t label_length;           /* npy: characters of the longest text label */
    char *header;                  /* npy: owned */
    size_t header_bytes;           /* npy */
    uint64_t rows;                 /* written so far */
};

/* `format` is one of ROW_WRITER_FORMATS. Writes the header, where there is one. `info` and `output`
 * must outlive the writer. */
enum error row_writer_open(const char *format, const struct store_info *info, struct output *output,
                           struct row_writer **ret_writer) MUST_CHECK;
/* NULL is legal. What row_writer_finish() did not complete stays incomplete: a npy file that was
 * cut short has no header. */
void row_writer_close(struct row_writer *writer);

/* ids[rows], labels[rows] and features[rows, F] as reader_fetch() gives them. */
enum error row_writer_add(struct row_writer *writer, size_t rows, const int64_t *ids,
                          const double *labels, const void *features) MUST_CHECK;
/* Writes facts known only now, and flushes. */
enum error row_writer_finish(struct row_writer *writer) MUST_CHECK;

extern const struct row_writer_ops row_writer_csv;
extern const struct row_writer_ops row_writer_npy;

#endif
