#include "trainer/trained.h"

#include "common/log.h"
#include "common/stop.h"
#include "trainer/expander.h"
#include "trainer/logdir.h"

static enum error open_newest(const char *path, struct checkpoint **ret_checkpoint)
{
    struct logdir *logdir = NULL;
    enum error error = logdir_open_read(path, &logdir);

    if (error)
        return error;
    error = logdir_newest(logdir, ret_checkpoint);
    if (!error && !*ret_checkpoint)
        error = error_set(ERROR_NOT_FOUND, "%s holds no checkpoint yet; train makes them", path);
    logdir_close(logdir);
    return error;
}

/* Slots are the trainer's alone: plain SGD has none. */
static enum error make_model(struct trained *trained)
{
    struct model_options options = checkpoint_get_facts(trained->checkpoint)->model;
    enum error error = optimizer_init(&options.optimizer, "sgd", 1.0);

    if (error)
        return error;
    options.batch_rows = engine_rows(options.shape.features);
    error = model_new(&options, trained->engine.kernel, &trained->model);
    return error ? error : checkpoint_restore(trained->checkpoint, trained->model);
}

enum error trained_open(const struct trained_options *options, struct trained *trained)
{
    enum error error;

    *trained = (struct trained){.checkpoint = NULL};
    if (!options->logdir && !options->checkpoint)
        return error_set(ERROR_USAGE, "neither --logdir nor --checkpoint names a model");
    error = options->checkpoint ? checkpoint_open(options->checkpoint, &trained->checkpoint)
                                : open_newest(options->logdir, &trained->checkpoint);
    if (error)
        return error;
    log_info("model of %s, step %lld", checkpoint_path(trained->checkpoint),
             (long long)checkpoint_step(trained->checkpoint));
    if ((error = engine_open(&options->engine, &trained->engine)) || (error = make_model(trained)))
        trained_close(trained);
    return error;
}

void trained_close(struct trained *trained)
{
    model_free(trained->model);
    engine_close(&trained->engine);
    checkpoint_close(trained->checkpoint);
    *trained = (struct trained){.checkpoint = NULL};
}

/* What a scan's callback needs. */
struct scan {
    const struct trained *trained;
    size_t row_bytes, limit;
    struct expander *expander;
    trained_sink *sink;
    void *context;
};

static enum error pass_on(void *context, const struct store_block *block)
{
    struct scan *scan = context;

    for (size_t at = 0; at < block->rows; at += scan->limit) {
        struct trained_rows rows = {.rows = block->rows - at < scan->limit ? block->rows - at
                                                                           : scan->limit,
                                    .ids = block->ids + at,
                                    .labels = block->label_values + at};
        const char *from = (const char *)block->features + at * scan->row_bytes;
        enum error error;

        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped before the last row");
        if ((error = expander_from_host(scan->expander, from, rows.rows, &rows.features)) ||
            (error = scan->sink(scan->context, &rows)))
            return error;
    }
    /* The block's memory is the store's again when this returns. */
    return device_queue_wait(scan->trained->engine.device, scan->trained->engine.queue);
}

/* One column more is most often the label, taken for a feature. */
static const char *maybe_label(const struct store_info *info, size_t features)
{
    if (info->features != features + 1 || info->label_kind != LABEL_NONE)
        return "";
    return "; if one of its columns is the label, the URI lacks label=COLUMN";
}

enum error trained_scan(struct trained *trained, struct store *store, trained_sink *sink,
                        void *context)
{
    const struct checkpoint_facts *facts = checkpoint_get_facts(trained->checkpoint);
    const struct store_info *info = store_info(store);
    struct scan scan = {.trained = trained,
                        .row_bytes = info->features * element_bytes(info->element),
                        .limit = model_get_options(trained->model)->batch_rows,
                        .sink = sink,
                        .context = context};
    enum error error;

    if (info->features != facts->model.shape.features)
        return error_set(ERROR_INPUT, "%s has %zu features, the model of %s takes %zu%s", info->uri,
                         info->features, checkpoint_path(trained->checkpoint),
                         facts->model.shape.features,
                         maybe_label(info, facts->model.shape.features));
    error = expander_new(&trained->engine, info->element, info->features, scan.limit,
                         facts->feature_scale, &scan.expander);
    if (!error)
        error = store_scan(store, SCAN_FEATURES, pass_on, &scan);
    expander_free(scan.expander);
    return error;
}
