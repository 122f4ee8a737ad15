/* SPDX-License-Identifier: MIT */
#include "trainer/run/training_parts.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/hang.h"
#include "common/log.h"
#include "loader/feed/sampler_client.h"
#include "loader/store_apart.h"
#include "loader/store_uri.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/run/training_parts_private.h"

/* A resumed training keeps the parameters that it began with. */
static void say_not_used(const struct training_parts *parts)
{
    if (parts->options->init_from)
        log_info("--init-from %s is not used: training goes on from %s", parts->options->init_from,
                 checkpoint_path(parts->checkpoint));
}

/* A start without a sampler must not leave a new logdir behind. */
static enum error find_sampler(const struct training_options *options)
{
    struct sampler_stream stream;
    struct hang hang;
    hang_begin(&hang, HANG_MS, "while the logdir %s does not answer", options->logdir);
    hang_warn(&hang);
    bool is_there = access(options->logdir, F_OK) == 0;
    hang_end(&hang);
    if (is_there)
        return OK; /* it may already hold the last step */
    return sampler_order_fetch(options->sampler_url, options->stream, options->patience_ms,
                               &stream);
}

enum error training_parts_take_logdir(struct training_parts *parts,
                                      const struct training_options *options, bool *ret_done)
{
    parts->options = options;
    enum error error = find_sampler(options);
    if (!error)
        error = logdir_open(options->logdir, options->patience_ms, &parts->logdir);
    if (!error)
        error = logdir_newest(parts->logdir, &parts->checkpoint);
    if (error)
        return error;
    if (parts->checkpoint) {
        error = checkpoint_compare(parts->checkpoint, &options->model);
        if (error)
            return error;
        say_not_used(parts);
    } else if (options->init_from) {
        error = checkpoint_open_foreign(options->init_from, &parts->initial);
        if (error)
            return error;
    }
    *ret_done = parts->checkpoint && checkpoint_step(parts->checkpoint) >= options->train_steps;
    if (*ret_done) /* otherwise the model's part does */
        training_parts_take_seed(parts, checkpoint_get_facts(parts->checkpoint)->model.seed);
    return OK;
}

enum error training_parts_join(struct training_parts *parts, const struct training_options *options)
{
    struct exchange_options exchange = {.cluster = options->cluster,
                                        .round_robin = options->round_robin,
                                        .bad_rows = options->bad_rows,
                                        .tcp_only = options->tcp_only,
                                        .aggregate = options->aggregate,
                                        .is_grouped = options->is_grouped,
                                        .staleness = options->staleness,
                                        .logdir = options->logdir,
                                        .train_steps = options->train_steps,
                                        .may_stop = options->early_stopping > 0,
                                        .patience_ms = options->patience_ms};
    parts->options = options;
    enum error error = exchange_open(&exchange, &parts->exchange, &parts->checkpoint);
    if (error)
        return error;
    if (parts->checkpoint && options->init_from)
        log_info("--init-from %s is not used: the servers have parameters already",
                 options->init_from);
    if (parts->checkpoint)
        return training_parts_compare(parts->checkpoint, &options->model);
    return options->init_from ? checkpoint_open_foreign(options->init_from, &parts->initial) : OK;
}

static enum error check_sampler(const struct training_options *options)
{
    struct sampler_client *client = NULL;
    enum error error = sampler_client_open(options->sampler_url, NULL, options->stream, 0, &client);
    sampler_client_close(client);
    return error;
}

enum error training_parts_check(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    const struct stream_position *position = &checkpoint_get_facts(parts->checkpoint)->position;
    const char *called = checkpoint_path(parts->checkpoint);
    enum error error = sampler_order_compare_size(position, called, options->batch_rows);
    if (!error)
        error = training_parts_compare_scale(parts);
    if (!error)
        error = training_parts_compare_norm(parts);
    if (!error)
        error = check_sampler(options);
    if (!error)
        error = store_check_uri(options->store_uri);
    if (!error && options->test_store_uri)
        error = store_check_uri(options->test_store_uri);
    if (error)
        return error;
    return engine_open(&options->engine, &parts->engine);
}

static enum error load_tests(struct training_parts *parts)
{
    struct targets *targets = NULL;
    struct store *store = NULL;
    if (!parts->options->test_store_uri)
        return OK;
    struct store_open_options how = {.recipe = parts->facts.recipe};
    enum error error = store_open_apart(parts->options->test_store_uri, &how, &store);
    if (error)
        return error;
    const char *called = store_info(parts->store)->uri;
    struct feature_input_options features = checkpoint_features(&parts->facts, called);
    if (parts->facts.recipe)
        error = checkpoint_check_recipe(parts->facts.recipe, called, store_info(store));
    if (error)
        goto out;
    error = targets_new(parts->facts.classes, store, &targets);
    if (error)
        goto out;
    error = test_set_new(&parts->engine, store, targets, &features, parts->options->bad_rows,
                         &parts->test_set);
out:
    targets_free(targets);
    store_close(store);
    return error;
}

static enum error make_buffers(struct training_parts *parts)
{
    size_t rows = (size_t)parts->options->batch_rows;
    parts->classes = array_new(rows, sizeof(*parts->classes), "a batch's classes");
    parts->numbers = array_new(rows, sizeof(*parts->numbers), "a batch's targets");
    if (!parts->classes || !parts->numbers)
        return ERROR_MEMORY;
    const struct checkpoint *origin = training_parts_origin(parts);
    const char *called = origin ? checkpoint_path(origin) : "this training";
    struct feature_input_options features = checkpoint_features(&parts->facts, called);
    return feature_input_new(&parts->engine, &features, store_info(parts->store),
                             FEATURES_FROM_FEED, rows, &parts->input);
}

/* As many threads as the largest layer's products can use: in a single process, which has the
 * processors to itself. */
static unsigned choose_threads(const struct training_parts *parts)
{
    struct model_layout layout;
    const struct model_options *model = &parts->facts.model;
    unsigned threads = 1;
    if (!parts->options->cluster->is_alone ||
        model_layout_init(&layout, &model->shape, &model->optimizer))
        return 1; /* a wrong shape is reported when the model is made */
    for (size_t i = 0; i < layout.layer_count; i++) {
        unsigned of_layer = kernel_layer_parts(layout.layers[i].inputs, layout.layers[i].outputs);
        threads = of_layer > threads ? of_layer : threads;
    }
    return threads;
}

static enum error open_engine(struct training_parts *parts)
{
    struct engine_options options = parts->options->engine;
    if (options.threads == 0)
        options.threads = choose_threads(parts);
    return engine_open(&options, &parts->engine);
}

enum error training_parts_open(struct training_parts *parts)
{
    parts->facts.model = parts->options->model;
    enum error error = training_parts_open_store(parts);
    if (!error)
        error = training_parts_ask_sampler(parts);
    if (!error)
        error = training_parts_ask_classes(parts);
    if (!error)
        error = targets_new(parts->facts.classes, parts->store, &parts->targets);
    if (!error)
        error = open_engine(parts);
    if (!error)
        error = training_parts_choose_norm(parts);
    if (!error)
        error = training_parts_make_model(parts);
    if (!error)
        error = load_tests(parts);
    if (!error)
        error = make_buffers(parts);
    if (error)
        return error;
    training_parts_warn_of_fractions(parts);
    return training_parts_open_feed(parts);
}

void training_parts_close(struct training_parts *parts)
{
    feed_close(parts->feed);
    exchange_close(parts->exchange);
    feature_input_free(parts->input);
    free(parts->classes);
    free(parts->numbers);
    test_set_free(parts->test_set);
    model_free(parts->model);
    engine_close(&parts->engine);
    targets_free(parts->targets);
    checkpoint_facts_release(&parts->facts);
    store_close(parts->store);
    checkpoint_close(parts->checkpoint);
    checkpoint_close(parts->initial);
    logdir_close(parts->logdir);
}
