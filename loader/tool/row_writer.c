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

static char *put(char *out, const void *field, size_t bytes)
{
    if (bytes > 0)
        memcpy(out, field, bytes);
    return out + bytes;
}

static enum error raw_row(struct row_writer *writer, const struct row_values *row)
{
    char *room;
    const struct store_info *info = writer->info;
    int64_t length = (int64_t)row->length;
    enum error error = output_reserve(writer->target, sizeof(*row) + writer->row_bytes, &room);
    if (error)
        return error;
    char *end = put(room, &row->id, sizeof(row->id));
    end = put(end, &row->label, sizeof(row->label));
    end = put(end, &row->weight, writer->extras.weights ? sizeof(row->weight) : 0);
    end = put(end, &row->group, writer->extras.groups ? sizeof(row->group) : 0);
    end = put(end, &length, info->lengths == LENGTHS_ALIKE ? 0 : sizeof(length));
    end = put(end, row->features, row->length * element_bytes(info->element));
    output_advance(writer->target, (size_t)(end - room));
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

enum error row_writer_open(const char *format, const struct store_info *info,
                           const struct row_extras *extras, struct output *output,
                           struct row_writer **ret_writer)
{
    const struct row_writer_ops *ops = find(format);
    if (!ops)
        return error_set(ERROR_USAGE, "--format %s: give csv, npy or raw", format);
    struct row_writer *writer = array_new(1, sizeof(*writer), "a row writer");
    if (!writer)
        return ERROR_MEMORY;
    writer->ops = ops;
    writer->info = info;
    writer->extras = *extras;
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

enum error row_writer_add(struct row_writer *writer, const struct feed_batch *batch)
{
    const double *weights = batch->weights;
    size_t stride = batch->width * element_bytes(writer->info->element);
    enum error error = OK;
    for (size_t i = 0; !error && i < batch->rows; i++) {
        struct row_values row = {.id = batch->ids[i],
                                 .label = batch->labels[i],
                                 .weight = weights ? weights[i] : 1,
                                 .group = batch->groups ? batch->groups[i] : 0,
                                 .features = (const char *)batch->features + i * stride,
                                 .length =
                                     batch->lengths ? (size_t)batch->lengths[i] : batch->width};
        error = writer->ops->row(writer, &row);
    }
    if (!error)
        writer->rows += batch->rows;
    return error;
}

enum error row_writer_finish(struct row_writer *writer)
{
    return writer->ops->finish(writer);
}
