/* SPDX-License-Identifier: MIT */
/*
 * The door to Arrow's C++ library: what the module, a shared object of its own, does for us. C on
 * both sides: no exception, no C++ type and no allocation crosses it. C, and C++ for the module.
 *
 * A file belongs to one thread at a time; different files to any.
 */
#ifndef LOADER_PARQUET_PARQUET_MODULE_H
#define LOADER_PARQUET_PARQUET_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/parquet/arrow_interface.h"

/* What dlsym() looks for: the name changes with the table below. */
#define PARQUET_MODULE_SYMBOL "tombola_parquet_module_1"

#define PARQUET_MESSAGE_BYTES 512

/* The bytes of a file, as the module reads them. */
struct parquet_source {
    void *context;
    uint64_t size_bytes;
    /* Exactly `bytes` at `offset`; 0, else the file is not read any further. */
    int (*read)(void *context, void *out, size_t bytes, uint64_t offset);
};

/* A row group: `bytes` are those of its pages, unpacked, or of its lists and bytes, if these take
 * more. */
struct parquet_group {
    int64_t rows, bytes;
};

struct parquet_handle; /* an open file; the module's own */

/* Functions with a message return 0, or an errno: ENOMEM, or what is wrong with the file. */
struct parquet_module {
    const char *library; /* "Arrow 26.0.1" */
    /* Reads the footer. `source` is copied; its context is borrowed until close(). */
    int (*open)(const struct parquet_source *source, struct parquet_handle **ret_handle,
                char message[PARQUET_MESSAGE_BYTES]);
    void (*close)(struct parquet_handle *handle);
    /* All columns; the caller releases it. */
    int (*schema)(struct parquet_handle *handle, struct arrow_schema *ret_schema,
                  char message[PARQUET_MESSAGE_BYTES]);
    /* All row groups, [*ret_count]; borrowed until close(). */
    const struct parquet_group *(*groups)(const struct parquet_handle *handle, int *ret_count);
    /* Does the footer promise that every value of the column is there and an integer from 0 to 255?
     */
    int (*is_bytes)(struct parquet_handle *handle, int column);
    /* The rows from `first_group` on, `group_count` groups of them, in batches of at most
     * `batch_rows`, of the columns whose places in the schema are `columns`, ascending. Batches are
     * checked: lengths, offsets and texts are right. To be released before close(). */
    int (*read)(struct parquet_handle *handle, int first_group, int group_count, const int *columns,
                size_t column_count, int64_t batch_rows, struct arrow_stream *ret_stream,
                char message[PARQUET_MESSAGE_BYTES]);
};

#endif
