/* SPDX-License-Identifier: MIT */
#include "trainer/run/trained_model.h"

#include <inttypes.h>
#include <string.h>

#include "common/divisor.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/feed/pull_plan.h"
#include "loader/feed/stream_check.h"
#include "loader/store/scan_apart.h"
#include "loader/store_apart.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/model/feature_input.h"
#include "trainer/run/report.h"

static enum error open_of_logdir(const char *path, bool best, struct checkpoint **ret_checkpoint)
{
    struct logdir *logdir = NULL;
    enum error error = logdir_open_read(path, &logdir);
    if (error)
        return error;
    error = best ? logdir_best(logdir, ret_checkpoint) : logdir_newest(logdir, ret_checkpoint);
    if (!error && !*ret_checkpoint)
        error = error_set(ERROR_NOT_FOUND,
                          best ? "%s holds no " LOGDIR_BEST "; train --test-store keeps one"
                               : "%s holds no checkpoint yet; train makes them",
                          path);
    logdir_close(logdir);
    return error;
}

/* Only training needs the optimizer's slots; plain SGD has none. */
static enum error make_model(struct trained_model *trained)
{
    struct model_options options = checkpoint_get_facts(trained->checkpoint)->model;
    enum error error = optimizer_init(&options.optimizer, "sgd", 1.0);
    if (error)
        return error;
    options.batch_rows = engine_rows(options.shape.features);
    error = model_new(&options, trained->engine.kernel, &trained->model);
    return error ? error : checkpoint_restore(trained->checkpoint, trained->model);
}

enum error trained_model_find(const struct trained_model_options *options,
                              struct checkpoint **ret_checkpoint)
{
    struct checkpoint *checkpoint = NULL;
    if (!options->logdir && !options->checkpoint)
        return error_set(ERROR_USAGE, "neither --logdir nor --checkpoint names a model");
    if (options->best && (!options->logdir || options->checkpoint))
        return error_set(ERROR_USAGE, "--best needs a --logdir");
    enum error error = options->checkpoint
                           ? checkpoint_open_foreign(options->checkpoint, &checkpoint)
                           : open_of_logdir(options->logdir, options->best, &checkpoint);
    if (!error && !checkpoint_has_facts(checkpoint))
        error = error_set(ERROR_INPUT,
                          "%s has no metadata that says which model it is (train --init-from takes "
                          "it)",
                          checkpoint_path(checkpoint));
    if (error)
        checkpoint_close(checkpoint);
    else
        *ret_checkpoint = checkpoint;
    return error;
}

enum error trained_model_open(const struct trained_model_options *options,
                              struct trained_model *trained)
{
    *trained = (struct trained_model){.bad_rows = options->bad_rows};
    enum error error = trained_model_find(options, &trained->checkpoint);
    if (error)
        return error;
    log_info("model of %s, step %lld", checkpoint_path(trained->checkpoint),
             (long long)checkpoint_step(trained->checkpoint));
    trained->borrows = options->borrowed != NULL;
    if (trained->borrows)
        trained->engine = *options->borrowed;
    else
        error = engine_open(&options->engine, &trained->engine);
    if (!error)
        error = make_model(trained);
    if (error)
        trained_model_close(trained);
    return error;
}

void trained_model_close(struct trained_model *trained)
{
    model_free(trained->model);
    if (!trained->borrows)
        engine_close(&trained->engine);
    checkpoint_close(trained->checkpoint);
    *trained = (struct trained_model){.checkpoint = NULL};
}

/* The context of a scan's callback. */
struct scan {
    const struct trained_model *trained;
    size_t row_bytes, limit;
    struct feature_input *input;
    trained_model_sink *sink;
    void *context;
    int64_t bad_rows; /* left out or zeroed so far */
};

/* How many rows from `at` on the model evaluates together; 0: the row at `at` is left out. */
static size_t run_of_rows(const struct scan *scan, const struct store_block *block, size_t at)
{
    size_t end = block->rows - at < scan->limit ? block->rows : at + scan->limit, begin = at;
    if (!block->status || scan->trained->bad_rows != BAD_ROWS_SKIP)
        return end - at;
    while (at < end && block->status[at] == ROW_OK)
        at++;
    return at - begin;
}

static void count_bad(struct scan *scan, const struct store_block *block)
{
    for (size_t i = 0; block->status && i < block->rows; i++)
        scan->bad_rows += block->status[i] != ROW_OK;
}

static enum error pass_on(void *context, const struct store_block *block)
{
    struct scan *scan = context;
    count_bad(scan, block);
    size_t step;
    for (size_t at = 0; at < block->rows; at += step) {
        struct trained_model_rows rows = {.rows = run_of_rows(scan, block, at),
                                          .ids = block->ids + at,
                                          .labels = block->label_values + at,
                                          .status = block->status ? block->status + at : NULL};
        const char *from = (const char *)block->features + at * scan->row_bytes;
        step = rows.rows > 0 ? rows.rows : 1;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped before the last row");
        if (rows.rows == 0)
            continue;
        enum error error = feature_input_take(scan->input, from, rows.rows, &rows.features);
        if (!error)
            error = scan->sink(scan->context, &rows);
        if (error)
            return error;
    }
    /* The store reuses the block's memory once this returns. */
    return device_queue_wait(scan->trained->engine.device, scan->trained->engine.queue);
}

static enum error new_input(const struct trained_model *trained, const struct store *store,
                            enum feature_source source, struct feature_input **ret_input)
{
    struct feature_input_options features = checkpoint_features(
        checkpoint_get_facts(trained->checkpoint), checkpoint_path(trained->checkpoint));
    return feature_input_new(&trained->engine, &features, store_info(store), source,
                             model_get_options(trained->model)->batch_rows, ret_input);
}

static enum error run_all(struct trained_model *trained, struct store *store,
                          trained_model_sink *sink, void *context)
{
    const struct store_info *info = store_info(store);
    struct scan scan = {.trained = trained,
                        .row_bytes = info->features * element_bytes(info->element),
                        .limit = model_get_options(trained->model)->batch_rows,
                        .sink = sink,
                        .context = context};
    enum scan_columns columns =
        trained->bad_rows == BAD_ROWS_FAIL ? SCAN_FEATURES : SCAN_FEATURES | SCAN_BAD_ROWS;
    enum error error = new_input(trained, store, FEATURES_ON_HOST, &scan.input);
    if (!error)
        error = store_scan_apart(store, columns, pass_on, &scan);
    if (!error)
        report_bad_rows(scan.bad_rows, trained->bad_rows);
    if (error == ERROR_INPUT && info->first_bad_row && trained->bad_rows == BAD_ROWS_FAIL)
        error = error_set(error, "%s" BAD_ROWS_ADVICE, error_message());
    feature_input_free(scan.input);
    return error;
}

/* ---- a stream's first epoch --------------------------------------------- */

/* The batches from position `at` on, all of the first epoch. Those of tail `keep` restart with each
 * epoch; others must end with it, or they would run on into the next one (span), or be skipped
 * (drop). If only the sampler knows which positions have units, that takes single ones. If the
 * design decides how many units a batch has, M is a multiple of that. */
static void choose_batches(const struct sampler_stream *stream, int64_t limit, int64_t at,
                           struct feed_options *options)
{
    struct pull_plan plan;
    int64_t left = stream->epoch_draws - at, rows = limit;
    bool keeps = strcmp(stream->tail, "keep") == 0;
    pull_plan_init(&plan, stream, (size_t)limit, 0);
    if (stream->batch_units > 0)
        rows = stream->batch_units;
    else if (!keeps && !plan.even)
        rows = 1;
    else if (!keeps && left < limit)
        rows = common_divisor(stream->epoch_draws, at);
    options->batch_rows = (size_t)rows;
    options->first_index = at / rows;
    options->batches = left / rows + (keeps && left % rows != 0);
}

/* At most `limit` rows at a time: the sampler's batches may be larger. */
static enum error pass_batch(const struct feed_batch *batch, const enum row_status *status,
                             size_t limit, struct feature_input *input, trained_model_sink *sink,
                             void *context)
{
    enum error error = OK;
    for (size_t at = 0; at < batch->rows && !error; at += limit) {
        struct trained_model_rows rows = {.rows =
                                              batch->rows - at < limit ? batch->rows - at : limit,
                                          .ids = batch->ids + at,
                                          .labels = batch->labels + at,
                                          .status = status ? status + at : NULL};
        const float *from = (const float *)batch->features + at * batch->width;
        error = feature_input_take(input, from, rows.rows, &rows.features);
        if (!error)
            error = sink(context, &rows);
    }
    return error;
}

/* Passes the feed's next batch through the model. ERROR_END: it is of the next epoch. */
static enum error draw_batch(struct trained_model *trained, struct feed *feed,
                             struct feature_input *input, trained_model_sink *sink, void *context)
{
    struct device_queue *queue = trained->engine.queue;
    const struct feed_batch *batch;
    enum error error = feed_next(feed, queue, &batch);
    if (error)
        return error;
    bool is_over = batch->epoch > 0;
    if (!is_over)
        error = pass_batch(batch, feed_row_status(feed, batch),
                           model_get_options(trained->model)->batch_rows, input, sink, context);
    if (!error)
        error = feed_put(feed, queue, batch);
    return error || !is_over ? error : ERROR_END;
}

static enum error draw_batches(struct trained_model *trained, const struct feed_options *options,
                               struct feature_input *input, trained_model_sink *sink, void *context,
                               int64_t *bad_rows)
{
    struct feed *feed = NULL;
    struct feed_stats stats;
    enum error error = feed_open(options, &feed);
    while (!error)
        error = draw_batch(trained, feed, input, sink, context);
    if (feed) {
        feed_get_stats(feed, &stats);
        *bad_rows += stats.bad_rows;
    }
    feed_close(feed);
    return error == ERROR_END ? OK : error;
}

static enum error draw_epoch(struct trained_model *trained, struct feed_options *options,
                             trained_model_sink *sink, void *context)
{
    int64_t limit = (int64_t)model_get_options(trained->model)->batch_rows, bad_rows = 0;
    struct feature_input *input = NULL;
    enum error error = new_input(trained, options->store, FEATURES_FROM_FEED, &input);
    for (int64_t at = 0; at < options->expected->epoch_draws && !error;) {
        choose_batches(options->expected, limit, at, options);
        at += options->batches * (int64_t)options->batch_rows;
        error = draw_batches(trained, options, input, sink, context, &bad_rows);
    }
    report_bad_rows(bad_rows, trained->bad_rows);
    feature_input_free(input);
    return error;
}

static enum error run_stream(struct trained_model *trained,
                             const struct trained_model_source *source, struct store *store,
                             trained_model_sink *sink, void *context)
{
    struct sampler_stream stream;
    enum error error =
        sampler_order_fetch(source->sampler_url, source->stream, source->patience_ms, &stream);
    if (!error)
        error = stream_check_rows(&stream, source->sampler_url, store_info(store),
                                  trained->bad_rows == BAD_ROWS_FAIL);
    if (error)
        return error;
    struct feed_options feed = {
        .sampler_url = source->sampler_url,
        .stream = source->stream,
        .store = store,
        .device = trained->engine.device,
        .pull = FEED_INDEX,
        .expected = &stream,
        .bad_rows = trained->bad_rows,
        .expand = true,
        .scale = checkpoint_get_facts(trained->checkpoint)->feature_scale,
        .patience_ms = source->patience_ms,
    };
    log_info("an epoch of stream %s of %s: %" PRId64 " positions", source->stream,
             source->sampler_url, stream.epoch_draws);
    return draw_epoch(trained, &feed, sink, context);
}

enum error trained_model_open_store(const struct trained_model *trained,
                                    const struct trained_model_source *source,
                                    struct store **ret_store)
{
    const struct feature_names *names = &checkpoint_get_facts(trained->checkpoint)->names;
    bool known = names->count > 0 && names->first_count == names->count;
    struct feature_recipe *recipe = checkpoint_get_facts(trained->checkpoint)->recipe;
    struct store_open_options options = {.columns = (const char *const *)names->first,
                                         .column_count = known ? names->count : 0,
                                         .recipe = recipe};
    enum error error = store_open_apart(source->store_uri, &options, ret_store);
    if (error || !recipe)
        return error;
    error = checkpoint_check_recipe(recipe, checkpoint_path(trained->checkpoint),
                                    store_info(*ret_store));
    if (error)
        store_close(*ret_store);
    return error;
}

enum error trained_model_run(struct trained_model *trained,
                             const struct trained_model_source *source, struct store *store,
                             trained_model_sink *sink, void *context)
{
    return source->sampler_url ? run_stream(trained, source, store, sink, context)
                               : run_all(trained, store, sink, context);
}
