/* SPDX-License-Identifier: MIT */
/* The scan for frames: keys in blocks with codes, processed by all CPUs. */
#include "loader/csv/csv_keys.h"
#include "loader/csv/csv_messages.h"
#include "loader/csv/store_csv.h"

struct keys_scan {
    struct csv_store *store;
    store_sink *sink;
    void *context;
    int64_t rows; /* handed out */
};

static enum error work(void *context, void *result, struct csv_block *block)
{
    const struct csv_store *store = ((struct keys_scan *)context)->store;
    int64_t line;
    enum error error =
        csv_keys_decode(result, &store->columns, store->delimiter, block, true, &line);
    return error ? csv_store_prefix(store, error, line) : OK;
}

static struct store_codes codes_of(const uint32_t *codes, const struct csv_texts *texts)
{
    return (struct store_codes){
        .codes = codes, .texts = texts->set.texts, .count = texts->set.count};
}

static enum error take(void *context, void *result, const struct csv_block *block)
{
    struct keys_scan *scan = context;
    struct csv_keys *keys = result;
    const struct text_source *text = &scan->store->source.text;
    if (keys->rows == 0)
        return OK;
    if (scan->store->columns.column_of[COLUMN_ID] < 0) {
        for (size_t i = 0; i < keys->rows; i++)
            keys->ids[i] = scan->rows + (int64_t)i;
    }
    struct store_block rows = {
        .rows = keys->rows,
        .first_row = scan->rows,
        .ids = keys->ids,
        .label_codes = codes_of(keys->label_codes, &keys->labels),
        .group_codes = codes_of(keys->group_codes, &keys->groups),
        .weights = keys->weights,
        .bytes_done = text_source_done(text, block->offset + block->length),
        .bytes_total = text->identity.size_bytes,
    };
    scan->rows += (int64_t)keys->rows;
    return scan->sink(scan->context, &rows);
}

static void release(void *context, void *result)
{
    (void)context;
    csv_keys_release(result);
}

enum error csv_store_scan_keys(struct csv_store *store, store_sink *sink, void *context)
{
    struct keys_scan scan = {.store = store, .sink = sink, .context = context};
    struct csv_pass pass = {.what = "reading",
                            .quiet = true,
                            .result_bytes = sizeof(struct csv_keys),
                            .work = work,
                            .take = take,
                            .release = release,
                            .context = &scan};
    enum error error = csv_pass_run(&pass, &store->source);
    if (!error && scan.rows == 0)
        error = csv_store_refuse_empty(store);
    return error;
}
