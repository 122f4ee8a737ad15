/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_cursor.h"

#include <stdlib.h>

#include "common/array.h"

#define BATCH_BYTES ((size_t)8 << 20) /* of a batch, unless a row is longer */
#define BATCH_ROWS_LIMIT 8192

static bool is_part(const struct parquet_column *column, enum parquet_part part)
{
    if (column->role == COLUMN_FEATURE)
        return part == PARQUET_ALL || (part == PARQUET_DOUBTFUL && !column->is_bytes);
    return part != PARQUET_IDS || column->role == COLUMN_ID;
}

/* A row's size in memory, as far as types give it; or in the file. */
static int64_t batch_rows(const struct parquet_cursor *cursor)
{
    size_t row_bytes = 1;
    for (size_t i = 0; i < cursor->columns->read_count; i++) {
        const struct parquet_column *column = &cursor->columns->read[i];
        if (cursor->values[i].type)
            row_bytes += column->features * (column->type.size > 0 ? (size_t)column->type.size : 8);
    }
    for (int i = 0; i < cursor->group_count; i++) {
        const struct parquet_group *group = &cursor->groups[i];
        if (group->rows > 0 && group->bytes > 0 && (size_t)(group->bytes / group->rows) > row_bytes)
            row_bytes = (size_t)(group->bytes / group->rows);
    }
    size_t rows = BATCH_BYTES / row_bytes;
    return rows < 1 ? 1 : rows > BATCH_ROWS_LIMIT ? BATCH_ROWS_LIMIT : (int64_t)rows;
}

static enum error choose(struct parquet_cursor *cursor, enum parquet_part part)
{
    size_t count = cursor->columns->read_count;
    cursor->values = array_new(count, sizeof(*cursor->values), "columns of a file");
    cursor->places = array_new(count, sizeof(*cursor->places), "columns of a file");
    if (!cursor->values || !cursor->places)
        return ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct parquet_column *column = &cursor->columns->read[i];
        if (!is_part(column, part))
            continue;
        cursor->places[cursor->place_count++] = column->place;
        cursor->values[i].type = &column->type;
    }
    return OK;
}

enum error parquet_cursor_open(struct parquet_cursor *cursor, const char *path,
                               const struct file_identity *identity,
                               const struct parquet_columns *columns, enum parquet_part part)
{
    *cursor = (struct parquet_cursor){.columns = columns};
    enum error error = parquet_file_open(&cursor->file, path, identity);
    if (!error) {
        cursor->groups = cursor->file.module->groups(cursor->file.handle, &cursor->group_count);
        error = choose(cursor, part);
    }
    if (error)
        parquet_cursor_close(cursor);
    return error;
}

static void drop_batch(struct parquet_cursor *cursor)
{
    if (cursor->batch.release)
        cursor->batch.release(&cursor->batch);
    cursor->batch.release = NULL;
}

static void drop_stream(struct parquet_cursor *cursor)
{
    drop_batch(cursor);
    if (cursor->stream.release)
        cursor->stream.release(&cursor->stream);
    cursor->stream.release = NULL;
}

void parquet_cursor_close(struct parquet_cursor *cursor)
{
    drop_stream(cursor);
    if (cursor->columns)
        parquet_file_close(&cursor->file);
    free(cursor->values);
    free(cursor->places);
    *cursor = (struct parquet_cursor){.columns = NULL};
}

enum error parquet_cursor_seek(struct parquet_cursor *cursor, int group, int64_t first_row,
                               bool alone)
{
    drop_stream(cursor);
    cursor->first_row = first_row;
    cursor->rows = 0;
    return parquet_file_read(&cursor->file, group, alone ? 1 : cursor->group_count - group,
                             cursor->places, cursor->place_count, batch_rows(cursor),
                             &cursor->stream);
}

enum error parquet_cursor_next(struct parquet_cursor *cursor)
{
    drop_batch(cursor);
    cursor->first_row += cursor->rows;
    cursor->rows = 0;
    enum error error;
    do
        error =
            parquet_file_next(&cursor->file, &cursor->stream, cursor->place_count, &cursor->batch);
    while (!error && cursor->batch.release && cursor->batch.length == 0);
    if (error || !cursor->batch.release)
        return error;
    size_t place = 0;
    for (size_t i = 0; i < cursor->columns->read_count && !error; i++) {
        const struct parquet_column *column = &cursor->columns->read[i];
        struct arrow_array *array;
        if (!cursor->values[i].type)
            continue;
        array = cursor->batch.children[place++];
        error = arrow_values_init(&cursor->values[i], &column->type, array, cursor->batch.length);
        if (error)
            error =
                error_prefix(error, "%s: column \"%s\": ", cursor->file.source.path, column->name);
    }
    if (!error)
        cursor->rows = cursor->batch.length;
    return error;
}
