/* SPDX-License-Identifier: MIT */
/*
 * Arrow's C data and stream interface: passes columns in memory between libraries without a copy.
 * Layout: https://arrow.apache.org/docs/format/CDataInterface.html
 *
 * A struct is live while its `release` is set; its owner calls that once, which frees everything
 * below it. C, and C++ for the module (parquet_module.cc).
 */
#ifndef LOADER_PARQUET_ARROW_INTERFACE_H
#define LOADER_PARQUET_ARROW_INTERFACE_H

#include <stdint.h>

/* The type of a column, or of all columns as the children of one "+s". */
struct arrow_schema {
    const char *format;   /* "i": int32, "g": double, "u": text, "+w:4": lists of 4, ... */
    const char *name;     /* may be NULL */
    const char *metadata; /* may be NULL */
    int64_t flags;
    int64_t child_count;
    struct arrow_schema **children;
    struct arrow_schema *dictionary; /* type of the values; NULL: not dictionary-encoded */
    void (*release)(struct arrow_schema *schema);
    void *owner;
};

/* Values of a column, or a batch of rows: the children of an array of "+s". */
struct arrow_array {
    int64_t length;
    int64_t null_count; /* -1: unknown */
    int64_t offset;     /* of the first value in buffers and children */
    int64_t buffer_count;
    int64_t child_count;
    const void **buffers; /* the first: a bit per value, 0: null; may be NULL: no nulls */
    struct arrow_array **children;
    struct arrow_array *dictionary;
    void (*release)(struct arrow_array *array);
    void *owner;
};

/* Batches of rows, one after another. The functions return 0 or an errno. */
struct arrow_stream {
    int (*get_schema)(struct arrow_stream *stream, struct arrow_schema *ret_schema);
    /* Returns an array that is not live at the end of the rows. */
    int (*get_next)(struct arrow_stream *stream, struct arrow_array *ret_array);
    /* Describes the last call's failure; NULL: unknown. */
    const char *(*get_last_error)(struct arrow_stream *stream);
    void (*release)(struct arrow_stream *stream);
    void *owner;
};

#endif
