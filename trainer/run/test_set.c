/* SPDX-License-Identifier: MIT */
#include "trainer/run/test_set.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/store/scan_apart.h"

struct test_set {
    const struct engine *engine;
    size_t rows, row_bytes;
    size_t chunk;     /* rows that the model evaluates at once */
    void *features;   /* device, [rows, F] of the store's element */
    int32_t *classes; /* [rows] */
    float *numbers;   /* [rows] */
    struct feature_input *input;
};

/* The context of the scan that fills the set. */
struct filling {
    struct test_set *set;
    const struct targets *targets;
    enum bad_rows bad_rows;
    size_t filled;
    int64_t bad; /* left out or zeroed */
};

/* How many rows from `at` on are taken together; 0: the row at `at` is left out. */
static size_t run_of_rows(struct filling *filling, const struct store_block *block, size_t at)
{
    size_t end = at;
    while (end < block->rows && (!block->status || block->status[end] == ROW_OK))
        end++;
    if (end > at)
        return end - at;
    filling->bad++;
    return filling->bad_rows == BAD_ROWS_SKIP ? 0 : 1;
}

static enum error add(struct filling *filling, const struct store_block *block, size_t at,
                      size_t rows)
{
    struct test_set *set = filling->set;
    const struct engine *engine = set->engine;
    const char *from = (const char *)block->features + at * set->row_bytes;
    char *to = (char *)set->features + filling->filled * set->row_bytes;
    if (rows > set->rows - filling->filled)
        return error_set(ERROR_INPUT, "the test store has more than the %zu %s it had before",
                         set->rows, text_plural(set->rows, "row", "rows"));
    enum error error =
        targets_convert(filling->targets, block->ids + at, block->label_values + at,
                        block->status ? block->status + at : NULL, rows,
                        set->classes + filling->filled, set->numbers + filling->filled);
    filling->filled += rows;
    return error ? error
                 : device_copy_in(engine->device, engine->queue, to, from, rows * set->row_bytes);
}

static enum error fill(void *context, const struct store_block *block)
{
    struct filling *filling = context;
    const struct engine *engine = filling->set->engine;
    size_t step;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the test store was read");
    for (size_t at = 0; at < block->rows; at += step) {
        size_t rows = run_of_rows(filling, block, at);
        step = rows > 0 ? rows : 1;
        enum error error = rows > 0 ? add(filling, block, at, rows) : OK;
        if (error)
            return error;
    }
    /* The scan reuses the block once this returns. */
    return device_queue_wait(engine->device, engine->queue);
}

static enum error scan(struct filling *filling, struct store *store)
{
    const struct store_info *info = store_info(store);
    bool fails = filling->bad_rows == BAD_ROWS_FAIL;
    enum scan_columns columns = fails ? SCAN_FEATURES : SCAN_FEATURES | SCAN_BAD_ROWS;
    enum error error = store_scan_apart(store, columns, fill, filling);
    if (error == ERROR_INPUT && info->first_bad_row && fails)
        return error_set(error, "%s" BAD_ROWS_ADVICE, error_message());
    if (!error && filling->filled == 0)
        return error_set(ERROR_INPUT, "%s has no rows to test on", info->uri);
    if (!error && filling->bad > 0)
        log_warning("%s: %" PRId64 " bad %s of the test set %s %s", info->uri, filling->bad,
                    text_plural(filling->bad, "row", "rows"),
                    text_plural(filling->bad, "was", "were"),
                    filling->bad_rows == BAD_ROWS_SKIP ? "left out" : "replaced by zeros");
    return error;
}

enum error test_set_new(const struct engine *engine, struct store *store,
                        const struct targets *targets, const struct feature_input_options *features,
                        enum bad_rows bad_rows, struct test_set **ret_set)
{
    const struct store_info *info = store_info(store);
    struct test_set *set = array_new(1, sizeof(*set), "a test set");
    struct filling filling = {.set = set, .targets = targets, .bad_rows = bad_rows};
    enum error error = ERROR_MEMORY;
    if (!set)
        return error;
    set->engine = engine;
    set->rows = (size_t)info->rows;
    set->row_bytes = info->features * element_bytes(info->element);
    set->chunk = engine_rows(info->features);
    set->classes = array_new(set->rows, sizeof(*set->classes), "a test set's classes");
    set->numbers = array_new(set->rows, sizeof(*set->numbers), "a test set's targets");
    if (!set->classes || !set->numbers)
        goto out;
    error = feature_input_new(engine, features, info, FEATURES_ON_DEVICE, set->chunk, &set->input);
    if (error)
        goto out;
    error = device_memory_new(engine->device, set->rows * set->row_bytes, &set->features);
    if (error)
        error = error_prefix(error, "%s as a test set: ", info->uri);
    if (!error)
        error = scan(&filling, store);
    if (error)
        goto out;
    set->rows = filling.filled;
    *ret_set = set;
    set = NULL;
out:
    test_set_free(set);
    return error;
}

void test_set_free(struct test_set *set)
{
    if (!set)
        return;
    feature_input_free(set->input);
    if (set->features)
        device_memory_free(set->engine->device, set->features);
    free(set->classes);
    free(set->numbers);
    free(set);
}

enum error test_set_score(struct test_set *set, struct model *model, struct model_score *ret_score)
{
    size_t limit = model_get_options(model)->batch_rows;
    size_t chunk = set->chunk;
    struct model_score score = {.rows = 0};
    if (chunk > limit)
        chunk = limit;
    for (size_t at = 0; at < set->rows; at += chunk) {
        size_t rows = set->rows - at < chunk ? set->rows - at : chunk;
        struct model_batch batch = {
            .rows = rows, .classes = set->classes + at, .targets = set->numbers + at};
        const char *from = (const char *)set->features + at * set->row_bytes;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while the test set was scored");
        enum error error = feature_input_take(set->input, from, rows, &batch.features);
        if (!error)
            error = model_evaluate(model, &batch, &score);
        if (error)
            return error;
    }
    *ret_score = score;
    return OK;
}
