/* SPDX-License-Identifier: MIT */
#include "loader/tool/row_writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* ---- raw ---------------------------------------------------------------- */

static enum error raw_begin(struct row_writer *writer)
{
    (void)writer;
    return OK;
}

static enum error raw_row(struct row_writer *writer, int64_t id, double label, const void *features)
{
    char *room;
    enum error error =
        output_reserve(writer->target, sizeof(id) + sizeof(label) + writer->row_bytes, &room);
    if (error)
        return error;
    memcpy(room, &id, sizeof(id));
    memcpy(room + sizeof(id), &label, sizeof(label));
    if (writer->row_bytes > 0)
        memcpy(room + sizeof(id) + sizeof(label), features, writer->row_bytes);
    output_advance(writer->target, sizeof(id) + sizeof(label) + writer->row_bytes);
    return OK;
}

static enum error raw_finish(struct row_writer *writer)
{
    return output_flush(writer->target);
}

static const struct row_writer_ops row_writer_raw = {
    .name = "raw", .begin = raw_begin, .row = raw_row, .finish = raw_finish};

/* ---- all ---------------------------------------------------------------- */

static const struct row_writer_ops *const all[] = {&row_writer_csv, &row_writer_npy,
                                                   &row_writer_raw};

static const struct row_writer_ops *find(const char *format)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i]->name, format) == 0)
            return all[i];
    }
    return NULL;
}

enum error row_writer_open(const char *format, const struct store_info *info, struct output *output,
                           struct row_writer **ret_writer)
{
    const struct row_writer_ops *ops = find(format);
    if (!ops)
        return error_set(ERROR_USAGE, "\"%s\" is no format of rows; csv, npy and raw are", format);
    struct row_writer *writer = array_new(1, sizeof(*writer), "a row writer");
    if (!writer)
        return ERROR_MEMORY;
    writer->ops = ops;
    writer->info = info;
    writer->output = output;
    writer->target = output;
    writer->row_bytes = info->features * element_bytes(info->element);
    enum error error = ops->begin(writer);
    if (error) {
        row_writer_close(writer);
        return error;
    }
    *ret_writer = writer;
    return OK;
}

void row_writer_close(struct row_writer *writer)
{
    if (!writer)
        return;
    output_close(writer->spool);
    free(writer->header);
    free(writer);
}

enum error row_writer_add(struct row_writer *writer, size_t rows, const int64_t *ids,
                          const double *labels, const void *features)
{
    const char *row = features;
    enum error error = OK;
    for (size_t i = 0; !error && i < rows; i++, row += writer->row_bytes)
        error = writer->ops->row(writer, ids[i], labels[i], row);
    if (!error)
        writer->rows += rows;
    return error;
}

enum error row_writer_finish(struct row_writer *writer)
{
    return writer->ops->finish(writer);
}
