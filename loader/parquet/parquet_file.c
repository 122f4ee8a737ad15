/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_file.h"

#include <errno.h>
#include <string.h>

#include "loader/parquet/parquet_door.h"

static int read_source(void *context, void *out, size_t bytes, uint64_t offset)
{
    struct parquet_file *file = context;
    enum error error = file->failure.code;
    if (!error)
        error = source_file_read(&file->source, out, bytes, offset);
    if (error && !file->failure.code)
        error_report_take(error, &file->failure);
    return error != OK;
}

/* The failed read's own message says more than the module's. */
static enum error refuse(const struct parquet_file *file, int code, const char *message)
{
    if (file->failure.code)
        return error_restore(&file->failure);
    if (code == ENOMEM)
        return error_set(ERROR_MEMORY, "out of memory while reading %s: %s", file->source.path,
                         message);
    return error_set(ERROR_INPUT, "%s cannot be read as Parquet: %s", file->source.path, message);
}

enum error parquet_file_open(struct parquet_file *file, const char *path,
                             const struct file_identity *expected)
{
    char message[PARQUET_MESSAGE_BYTES] = "";
    *file = (struct parquet_file){.source = {.descriptor = -1}};
    enum error error = source_file_open(&file->source, path, expected);
    if (!error)
        error = parquet_door_open(&file->module);
    if (!error) {
        struct parquet_source source = {
            .context = file, .size_bytes = file->source.identity.size_bytes, .read = read_source};
        int code = file->module->open(&source, &file->handle, message);
        error = code ? refuse(file, code, message) : OK;
    }
    if (error)
        parquet_file_close(file);
    return error;
}

void parquet_file_close(struct parquet_file *file)
{
    if (file->handle)
        file->module->close(file->handle);
    file->handle = NULL;
    source_file_close(&file->source);
}

enum error parquet_file_schema(struct parquet_file *file, struct arrow_schema *ret_schema)
{
    char message[PARQUET_MESSAGE_BYTES] = "";
    int code = file->module->schema(file->handle, ret_schema, message);
    return code ? refuse(file, code, message) : OK;
}

enum error parquet_file_read(struct parquet_file *file, int first_group, int group_count,
                             const int *columns, size_t column_count, int64_t batch_rows,
                             struct arrow_stream *ret_stream)
{
    char message[PARQUET_MESSAGE_BYTES] = "";
    int code = file->module->read(file->handle, first_group, group_count, columns, column_count,
                                  batch_rows, ret_stream, message);
    return code ? refuse(file, code, message) : OK;
}

enum error parquet_file_next(struct parquet_file *file, struct arrow_stream *stream,
                             size_t column_count, struct arrow_array *ret_batch)
{
    ret_batch->release = NULL;
    int code = stream->get_next(stream, ret_batch);
    if (code) {
        const char *message = stream->get_last_error(stream);
        return refuse(file, code, message ? message : strerror(code));
    }
    if (!ret_batch->release)
        return OK;
    if (ret_batch->child_count == (int64_t)column_count && ret_batch->offset == 0)
        return OK;
    ret_batch->release(ret_batch);
    return refuse(file, EINVAL, "a batch does not have the columns that were asked for");
}
