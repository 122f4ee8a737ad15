/* SPDX-License-Identifier: MIT */
#include "trainer/run/test_set.h"

#include <stdlib.h>

#include "common/array.h"
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
    size_t filled;
};

static enum error fill(void *context, const struct store_block *block)
{
    struct filling *filling = context;
    struct test_set *set = filling->set;
    const struct engine *engine = set->engine;
    char *to = (char *)set->features + filling->filled * set->row_bytes;
    if (block->rows > set->rows - filling->filled)
        return error_set(ERROR_INPUT, "the test store has more than the %zu %s it had before",
                         set->rows, text_plural(set->rows, "row", "rows"));
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the test store was read");
    enum error error =
        targets_convert(filling->targets, block->ids, block->label_values, NULL, block->rows,
                        set->classes + filling->filled, set->numbers + filling->filled);
    if (error)
        return error;
    error = device_copy_in(engine->device, engine->queue, to, block->features,
                           block->rows * set->row_bytes);
    filling->filled += block->rows;
    /* The scan reuses the block once this returns. */
    return error ? error : device_queue_wait(engine->device, engine->queue);
}

enum error test_set_new(const struct engine *engine, struct store *store,
                        const struct targets *targets, const struct feature_input_options *features,
                        struct test_set **ret_set)
{
    const struct store_info *info = store_info(store);
    struct test_set *set = array_new(1, sizeof(*set), "a test set");
    struct filling filling = {.set = set, .targets = targets};
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
        error = store_scan_apart(store, SCAN_FEATURES, fill, &filling);
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
