/* SPDX-License-Identifier: MIT */
#include "loader/store/store_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/stop.h"
#include "common/text.h"

enum error store_writer_open(const struct store_writer_ops *ops, struct uri *uri, const char *table,
                             bool replace, struct store_writer **ret_writer)
{
    struct store_writer *writer = NULL;
    enum error error = ops->open(uri, table, replace, &writer);
    if (error)
        return error;
    writer->ops = ops;
    content_digest_init(&writer->digest);
    *ret_writer = writer;
    return OK;
}

void store_writer_close(struct store_writer *writer)
{
    if (!writer)
        return;
    content_digest_release(&writer->digest);
    writer->ops->close(writer);
}

/* ---- rows --------------------------------------------------------------- */

enum error store_writer_begin(struct store_writer *writer, const struct store_info *info)
{
    writer->info = info;
    return writer->ops->begin(writer);
}

static enum error refuse_count(const struct store_writer *writer, int64_t rows)
{
    return error_set(ERROR_INPUT, "%s gave %" PRId64 " %s, and announced %" PRId64,
                     writer->info->uri, rows, text_plural(rows, "row", "rows"), writer->info->rows);
}

static enum error check_stop(const struct store_writer *writer)
{
    return stop_requested()
               ? error_set(ERROR_CANCELLED, "stopped before %s was complete; nothing was left",
                           writer->place)
               : OK;
}

enum error store_writer_add(void *context, const struct store_block *block)
{
    struct store_writer *writer = context;
    int64_t rows = writer->rows + (int64_t)block->rows;
    if (rows > writer->info->rows)
        return refuse_count(writer, rows);
    enum error error = check_stop(writer);
    if (!error)
        error = content_digest_add(&writer->digest, writer->info, block);
    if (!error)
        error = writer->ops->add(writer, block);
    writer->rows = rows;
    return error;
}

/* ---- reading back ------------------------------------------------------- */

struct reading {
    const struct store_writer *writer;
    const struct store_info *info;
    struct content_digest digest;
};

static enum error read_block(void *context, const struct store_block *block)
{
    struct reading *reading = context;
    enum error error = check_stop(reading->writer);
    return error ? error : content_digest_add(&reading->digest, reading->info, block);
}

static enum error compare(const struct store_writer *writer, struct store *store)
{
    struct reading reading = {.writer = writer, .info = store_info(store)};
    char text[CONTENT_DIGEST_TEXT_BYTES];
    content_digest_init(&reading.digest);
    enum error error = store_scan(store, SCAN_FEATURES, read_block, &reading);
    content_digest_text(&reading.digest, text);
    content_digest_release(&reading.digest);
    if (!error && strcmp(text, writer->digest_text) != 0)
        error = error_set(ERROR_IO,
                          "%s: what was written reads back as other rows (digest %s, not %s): a "
                          "disk or memory fails",
                          writer->place, text, writer->digest_text);
    return error;
}

enum error store_writer_read_back(const struct store_writer *writer, struct uri *uri)
{
    struct store *store = NULL;
    char *name = strdup(writer->place);
    enum error error = name ? writer->ops->store->open(uri, &(struct read_options){0}, &store)
                            : error_set_memory(strlen(writer->place), "a store's name");
    if (error) {
        free(name);
        return error;
    }
    store->ops = writer->ops->store;
    if (store->info.uri)
        free(name);
    else
        store->info.uri = name;
    error = compare(writer, store);
    store_close(store);
    return error;
}

static enum error read_file_back(const struct store_writer *writer, const char *path)
{
    struct uri uri = {.path = strdup(path)};
    enum error error = uri.path ? OK : error_set_memory(strlen(path), "a file's name");
    if (!error && writer->table)
        error = uri_query_add(&uri.query, "table", writer->table);
    if (!error)
        error = store_writer_read_back(writer, &uri);
    uri_release(&uri);
    return error;
}

enum error store_writer_commit(struct store_writer *writer)
{
    const char *path = NULL;
    if (writer->rows != writer->info->rows)
        return refuse_count(writer, writer->rows);
    content_digest_text(&writer->digest, writer->digest_text);
    enum error error = writer->ops->finish(writer, &path);
    if (!error && path)
        error = read_file_back(writer, path);
    if (!error)
        error = check_stop(writer);
    return error ? error : writer->ops->publish(writer);
}
