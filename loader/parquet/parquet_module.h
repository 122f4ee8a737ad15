/* SPDX-License-Identifier: MIT */
/*
 * The interface to Arrow's C++ library, implemented by the module, a separate shared object. C on
 * both sides: no exception, C++ type or allocation crosses it. C, and C++ for the module.
 *
 * A file belongs to one thread at a time; different files may be used from different threads.
 */
#ifndef LOADER_PARQUET_PARQUET_MODULE_H
#define LOADER_PARQUET_PARQUET_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/parquet/arrow_interface.h"

/* The symbol for dlsym(): its name changes with the table below. */
#define PARQUET_MODULE_SYMBOL "tombola_parquet_module_1"

#define PARQUET_MESSAGE_BYTES 512

/* How the module reads a file's bytes. */
struct parquet_source {
    void *context;
    uint64_t size_bytes;
    /* Reads exactly `bytes` at `offset`; not 0: the file is not read any further. */
    int (*read)(void *context, void *out, size_t bytes, uint64_t offset);
};

/* A row group: `bytes` is the size of its unpacked pages, or of its lists and bytes if these need
 * more. */
struct parquet_group {
    int64_t rows, bytes;
};

struct parquet_handle; /* an open file; private to the module */

/* Functions with a message return 0, or an errno: ENOMEM, or for a bad file. */
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
    /* Does the footer guarantee that the column has no nulls and only integers from 0 to 255? */
    int (*is_bytes)(struct parquet_handle *handle, int column);
    /* Reads `group_count` groups from `first_group` on, in batches of at most `batch_rows`, of the
     * columns whose places in the schema are `columns`, ascending. Lengths, offsets and texts of
     * batches have been checked. Release the stream before close(). */
    int (*read)(struct parquet_handle *handle, int first_group, int group_count, const int *columns,
                size_t column_count, int64_t batch_rows, struct arrow_stream *ret_stream,
                char message[PARQUET_MESSAGE_BYTES]);
};

#endif
