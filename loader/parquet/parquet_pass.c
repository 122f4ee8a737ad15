/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_pass.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define PROGRESS_NS INT64_C(2000000000)

static enum error visit_tile(const struct parquet_pass *pass, struct parquet_tile *tile,
                             const struct parquet_cursor *cursor, int64_t first, size_t count)
{
    enum error error = parquet_tile_decode(tile, cursor, first, count);
    for (size_t i = 0; i < count && !error; i++) {
        if (tile->rows[i].status == ROW_BAD)
            parquet_tile_explain(tile, cursor, first, i);
        error = pass->visit(pass->context, &tile->rows[i], parquet_tile_row(tile, i));
    }
    return error;
}

static enum error visit_batch(const struct parquet_pass *pass, struct parquet_tile *tile,
                              const struct parquet_cursor *cursor)
{
    enum error error = OK;
    for (int64_t first = 0; first < cursor->rows && !error;) {
        int64_t left = cursor->rows - first;
        size_t count = left < (int64_t)tile->limit ? (size_t)left : tile->limit;
        error = visit_tile(pass, tile, cursor, first, count);
        first += (int64_t)count;
    }
    return error;
}

/* After each batch. */
static enum error go_on(const struct parquet_pass *pass, int64_t *next_ns, int64_t done)
{
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while reading %s", pass->store->path);
    if (!pass->what || clock_now_ns() < *next_ns)
        return OK;
    *next_ns = clock_now_ns() + PROGRESS_NS;
    log_info("%s %s: %" PRId64 " of %" PRId64 " rows", pass->what, pass->store->path, done,
             pass->store->store.info.rows);
    return OK;
}

static enum error visit_all(const struct parquet_pass *pass, struct parquet_tile *tile,
                            struct parquet_cursor *cursor)
{
    int64_t rows = pass->store->store.info.rows;
    int64_t next_ns = clock_now_ns() + PROGRESS_NS;
    enum error error = source_file_check(&cursor->file.source);
    if (!error)
        error = parquet_cursor_seek(cursor, 0, 0, false);
    while (!error) {
        error = parquet_cursor_next(cursor);
        if (error || cursor->rows == 0)
            break;
        if (cursor->rows > rows - cursor->first_row)
            break;
        error = visit_batch(pass, tile, cursor);
        if (!error)
            error = go_on(pass, &next_ns, cursor->first_row + cursor->rows);
    }
    if (!error)
        error = source_file_check(&cursor->file.source); /* rows read may include later writes */
    if (!error && (cursor->rows > 0 || cursor->first_row != rows))
        error = error_set(ERROR_INPUT,
                          "%s is damaged: its row groups have %s rows than the %" PRId64
                          " that its footer says",
                          pass->store->path, cursor->rows > 0 ? "more" : "fewer", rows);
    return error;
}

enum error parquet_pass_run(const struct parquet_pass *pass)
{
    const struct parquet_store *store = pass->store;
    struct parquet_cursor cursor;
    struct parquet_tile *tile = parquet_tile_new(&store->columns, pass->part, pass->element);
    if (!tile)
        return ERROR_MEMORY;
    enum error error =
        parquet_cursor_open(&cursor, store->path, &store->identity, &store->columns, pass->part);
    if (!error) {
        error = visit_all(pass, tile, &cursor);
        parquet_cursor_close(&cursor);
    }
    parquet_tile_free(tile);
    return error;
}
