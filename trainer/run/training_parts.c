/* SPDX-License-Identifier: MIT */
#include "trainer/run/training_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/feed/pull_plan.h"
#include "loader/feed/stream_check.h"
#include "loader/store/feature_range.h"
#include "loader/store_apart.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/run/normalization.h"

/* A resumed training keeps the parameters that it began with. */
static void say_not_used(const struct training_parts *parts)
{
    if (parts->options->init_from)
        log_info("--init-from %s is not used: training goes on from %s", parts->options->init_from,
                 checkpoint_path(parts->checkpoint));
}

static void warn_of_seed(const struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    uint64_t seed = checkpoint_get_facts(parts->checkpoint)->model.seed;
    if (options->seed_given && options->model.seed != seed)
        log_warning("--seed %" PRIu64 " is not used: training goes on from a checkpoint that began "
                    "with seed %" PRIu64,
                    options->model.seed, seed);
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
        warn_of_seed(parts);
        say_not_used(parts);
    } else if (options->init_from) {
        error = checkpoint_open_foreign(options->init_from, &parts->initial);
        if (error)
            return error;
    }
    *ret_done = parts->checkpoint && checkpoint_step(parts->checkpoint) >= options->train_steps;
    return OK;
}

/* Compares server 0's facts with this worker's options. */
static enum error compare_training(const struct checkpoint *checkpoint,
                                   const struct model_options *model)
{
    enum error error = checkpoint_compare(checkpoint, model);
    return error ? error : checkpoint_compare_hyperparameters(checkpoint, model);
}

enum error training_parts_join(struct training_parts *parts, const struct training_options *options)
{
    struct exchange_options exchange = {.cluster = options->cluster,
                                        .round_robin = options->round_robin,
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
        return compare_training(parts->checkpoint, &options->model);
    return options->init_from ? checkpoint_open_foreign(options->init_from, &parts->initial) : OK;
}

/* The checkpoint that the first parameters come from; NULL: none, or one without facts. */
static const struct checkpoint *origin(const struct training_parts *parts)
{
    if (parts->checkpoint)
        return parts->checkpoint;
    return parts->initial && checkpoint_has_facts(parts->initial) ? parts->initial : NULL;
}

static const struct checkpoint_facts *origin_facts(const struct training_parts *parts)
{
    return origin(parts) ? checkpoint_get_facts(origin(parts)) : NULL;
}

static enum error compare_scale(const struct training_parts *parts)
{
    float saved = origin_facts(parts)->feature_scale;
    float given = parts->options->feature_scale;
    if (given == 0 || given == saved)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s was trained with features times %g; this run has --feature-scale %g",
                     checkpoint_path(origin(parts)), (double)saved, (double)given);
}

/* A resumed training may omit --normalize, but not introduce it. */
static enum error compare_norm(const struct training_parts *parts)
{
    if (!parts->options->normalize || origin_facts(parts)->norm.features > 0)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s was trained without --normalize, which its parameters do not fit; %s",
                     checkpoint_path(origin(parts)),
                     parts->checkpoint ? "train with it in another --logdir" : "leave it out");
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
        error = compare_scale(parts);
    if (!error)
        error = compare_norm(parts);
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

static const struct checkpoint_facts *saved_facts(const struct training_parts *parts)
{
    return parts->checkpoint ? checkpoint_get_facts(parts->checkpoint) : NULL;
}

/* The factor is a default: logs it, and warns if all bytes are small. */
static enum error explain_scale(const struct training_parts *parts)
{
    const struct store_info *info = store_info(parts->store);
    struct feature_range range = {.rows = 0};
    enum error error = info->element == ELEMENT_U8 ? feature_range_find(parts->store, &range) : OK;
    if (error)
        return error;
    log_info("features are multiplied by %s (--feature-scale), since %s holds %s",
             info->element == ELEMENT_U8 ? "1/255" : "1", info->uri,
             info->element == ELEMENT_U8 ? "integers from 0 to 255"
                                         : "numbers that are not all such integers");
    if (feature_range_is_small(&range) && !parts->options->normalize)
        log_warning("%s: no feature of the first %" PRId64 " rows is larger than %d, and all are "
                    "multiplied with 1/255, which suits bytes up to 255: they may be too small to "
                    "learn from; --feature-scale 1 takes them as they are",
                    info->uri, range.rows, range.largest);
    return OK;
}

static enum error choose_scale(struct training_parts *parts)
{
    const struct checkpoint_facts *saved = origin_facts(parts);
    float given = parts->options->feature_scale;
    if (saved) {
        enum error error = compare_scale(parts);
        if (!error)
            error = compare_norm(parts);
        if (error)
            return error;
    }
    if (saved || given != 0) {
        parts->facts.feature_scale = saved ? saved->feature_scale : given;
        log_info("features are multiplied by %g", (double)parts->facts.feature_scale);
        return OK;
    }
    parts->facts.feature_scale =
        store_info(parts->store)->element == ELEMENT_U8 ? 1.0f / 255.0f : 1.0f;
    return explain_scale(parts);
}

/* Keeps the checkpoint's names, so that resuming from a store without a header changes nothing. */
static enum error choose_names(struct training_parts *parts)
{
    const struct checkpoint_facts *saved = origin_facts(parts);
    if (!saved || saved->names.count == 0)
        return feature_names_init(&parts->facts.names, store_info(parts->store));
    return feature_names_copy(&parts->facts.names, &saved->names);
}

static enum error open_store(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    const struct checkpoint_facts *saved = origin_facts(parts);
    struct store_open_options how = {
        .cache = {.bytes = (uint64_t)options->cache_bytes,
                  .folder = options->cache,
                  .folder_limit_bytes = (uint64_t)options->cache_limit},
        .recipe = saved ? saved->recipe : NULL};
    enum error error = store_open_apart(options->store_uri, &how, &parts->store);
    if (error)
        return error;
    const struct store_info *info = store_info(parts->store);
    if (info->features == 0)
        return error_set(ERROR_INPUT, "%s has no feature columns to train on", info->uri);
    error = feature_input_check_rows(info);
    if (!error && saved)
        error = checkpoint_check_recipe(saved->recipe, checkpoint_path(origin(parts)), info);
    if (error)
        return error;
    parts->facts.recipe = saved ? saved->recipe : info->recipe;
    feature_recipe_keep(parts->facts.recipe);
    parts->facts.model.shape.features = saved ? saved->model.shape.features : info->features;
    error = choose_names(parts);
    if (!error && saved) {
        struct feature_input_options features =
            checkpoint_features(saved, checkpoint_path(origin(parts)));
        error = feature_input_check(&features, info);
    }
    return error ? error : choose_scale(parts);
}

static void warn_of_splits(const struct sampler_stream *stream, const char *url)
{
    if (stream->mixes_splits)
        log_warning(
            "stream %s draws all %" PRId64 " rows, validation and test rows among them, "
            "although the sampler has --splits: train with --stream NAME of a stream of "
            "split train (curl %s/streams -d '{\"name\":\"train\",\"split\":\"train\"}' makes "
            "one), or start the sampler with --split train",
            stream->name, stream->units, url);
}

/* Asks the sampler for its order and compares it with the checkpoint's. */
static enum error ask_sampler(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    const struct checkpoint_facts *saved = saved_facts(parts);
    struct stream_position *position = &parts->facts.position;
    enum error error = sampler_order_fetch(options->sampler_url, options->stream,
                                           options->patience_ms, &position->stream);
    if (error)
        return error;
    warn_of_splits(&position->stream, options->sampler_url);
    position->batch_rows = options->batch_rows;
    if (saved) {
        error =
            sampler_order_compare(&saved->position, checkpoint_path(parts->checkpoint), position);
        if (error)
            return error;
        error = index_set_copy(&parts->facts.done, &saved->done);
        if (error)
            return error;
    }
    return stream_check_rows(&position->stream, options->sampler_url, store_info(parts->store),
                             options->bad_rows == BAD_ROWS_FAIL);
}

static enum error ask_classes(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    const struct checkpoint_facts *saved = origin_facts(parts);
    if (parts->facts.model.shape.kind == MODEL_LINEAR) {
        parts->facts.model.shape.outputs = 1;
        return OK;
    }
    enum error error = classes_fetch(options->sampler_url, options->stream, options->patience_ms,
                                     &parts->facts.classes);
    if (error)
        return error;
    if (saved) {
        error = classes_compare(saved->classes, checkpoint_path(origin(parts)),
                                parts->facts.classes, "the sampler's frame");
        if (error)
            return error;
    }
    parts->facts.model.shape.outputs = parts->facts.classes->count;
    if (parts->facts.classes->count < 2)
        return error_set(ERROR_INPUT,
                         "the sampler's frame has a single label, '%s'; a classifier needs at "
                         "least two (a regression is --model linear)",
                         parts->facts.classes->texts[0]);
    return OK;
}

/* Numbers with fractions are usually measurements: --model linear may be meant. */
static void warn_of_fractions(const struct training_parts *parts)
{
    const struct store_info *info = store_info(parts->store);
    const struct classes *classes = parts->facts.classes;
    int64_t units = parts->facts.position.stream.units;
    if (!classes)
        return;
    if (info->label_kind == LABEL_INTEGER && classes->count > 50 &&
        (int64_t)classes->count > units / 2)
        log_warning("%s: column %s holds %zu different numbers in %" PRId64 " units, and each is a "
                    "class of its own (a regression is --model linear)",
                    info->uri, info->label_column, classes->count, units);
    if (info->label_kind != LABEL_REAL)
        return;
    double value;
    for (size_t i = 0; i < classes->count; i++) {
        const char *text = classes->texts[i];
        if (!text_parse_real(text, strlen(text), &value) || value == floor(value))
            continue;
        log_warning("%s: column %s holds real numbers such as %s; each of the %zu is a class of "
                    "its own (a regression is --model linear)",
                    info->uri, info->label_column, text, classes->count);
        return;
    }
}

/* A training keeps the seed of its first start. */
static void take_seed(struct training_parts *parts, uint64_t seed)
{
    const struct training_options *options = parts->options;
    if (options->seed_given && options->model.seed != seed)
        log_warning("--seed %" PRIu64 " has no effect: this training began with --seed %" PRIu64,
                    options->model.seed, seed);
    parts->facts.model.seed = seed;
}

static enum error choose_seed(struct training_parts *parts)
{
    const struct checkpoint_facts *saved = saved_facts(parts);
    uint64_t *seed = &parts->facts.model.seed;
    if (saved) {
        take_seed(parts, saved->model.seed);
    } else if (!parts->options->seed_given) {
        if (getrandom(seed, sizeof(*seed), 0) != (ssize_t)sizeof(*seed))
            return error_set_errno(ERROR_IO, errno, "cannot draw a seed; give one with --seed");
        *seed >>= 1;
        log_info("parameters start from --seed %" PRIu64, *seed);
    }
    return OK;
}

/* Compares what server 0 trains with this worker's proposal, by which it already reads features. */
static enum error compare_features(const struct training_parts *parts,
                                   const struct checkpoint *held)
{
    struct checkpoint_facts own = parts->facts;
    struct buffer ours = BUFFER_INIT(SAFETENSORS_HEADER_LIMIT), theirs = ours;
    own.position = checkpoint_get_facts(held)->position;
    enum error error = checkpoint_print_facts(&own, 0, &ours);
    if (!error)
        error = checkpoint_print_facts(checkpoint_get_facts(held), 0, &theirs);
    if (!error &&
        (ours.length != theirs.length || memcmp(ours.data, theirs.data, ours.length) != 0))
        error = error_set(ERROR_CONFLICT,
                          "%s trains with another --feature-scale or --normalize already, or with "
                          "columns of other names or in another order; start this worker again",
                          checkpoint_path(held));
    buffer_release(&ours);
    buffer_release(&theirs);
    return error;
}

/* Server 0 takes the first proposal that arrives, with its seed: is this worker's own the same? */
static enum error propose(struct training_parts *parts)
{
    struct checkpoint *held = NULL;
    enum error error = exchange_propose(parts->exchange, &parts->facts, &held);
    if (error || !held)
        return error;
    take_seed(parts, checkpoint_get_facts(held)->model.seed);
    error = compare_training(held, &parts->facts.model);
    if (!error)
        error = checkpoint_check_recipe(checkpoint_get_facts(held)->recipe, checkpoint_path(held),
                                        store_info(parts->store));
    if (!error)
        error = sampler_order_compare(&checkpoint_get_facts(held)->position, checkpoint_path(held),
                                      &parts->facts.position);
    if (!error)
        error = compare_features(parts, held);
    checkpoint_close(held);
    return error;
}

/* A worker keeps values only, and the servers the optimizer's slots, unless GPUs train together. */
static enum error make_worker_model(struct training_parts *parts)
{
    enum error error = propose(parts);
    if (error)
        return error;
    struct model_options model = parts->facts.model;
    if (!parts->options->is_grouped)
        model.optimizer.kind = OPTIMIZER_SGD;
    error = model_new(&model, parts->engine.kernel, &parts->model);
    if (error)
        return error;
    struct pull_plan plan;
    const struct sampler_stream *stream = &parts->facts.position.stream;
    pull_plan_init(&plan, stream, (size_t)parts->options->batch_rows, 0);
    return exchange_begin(parts->exchange, &parts->engine, parts->model,
                          pull_plan_batches(&plan, stream->epochs));
}

static enum error make_model(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    struct model_options *model = &parts->facts.model;
    const struct checkpoint_facts *saved = saved_facts(parts);
    size_t test_rows = options->test_store_uri ? engine_rows(model->shape.features) : 0;
    enum error error = choose_seed(parts);
    if (error)
        return error;
    model->batch_rows = (size_t)options->batch_rows;
    if (model->batch_rows < test_rows)
        model->batch_rows = test_rows;
    if (parts->exchange)
        return make_worker_model(parts);
    error = model_new(model, parts->engine.kernel, &parts->model);
    if (!error && parts->initial) {
        log_info("parameters start from %s", checkpoint_path(parts->initial));
        error = checkpoint_restore_parameters(parts->initial, parts->model);
    }
    if (error || !saved)
        return error;
    error = checkpoint_compare(parts->checkpoint, model);
    if (error)
        return error;
    hyperparameters_log_changes(&saved->model, model);
    log_info("going on from %s, step %" PRId64, checkpoint_path(parts->checkpoint),
             checkpoint_step(parts->checkpoint));
    return checkpoint_restore(parts->checkpoint, parts->model);
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
    struct feature_input_options features =
        checkpoint_features(&parts->facts, parts->options->store_uri);
    if (parts->facts.recipe)
        error = checkpoint_check_recipe(parts->facts.recipe, parts->options->store_uri,
                                        store_info(store));
    if (error)
        goto out;
    error = targets_new(parts->facts.classes, store, &targets);
    if (error)
        goto out;
    error = test_set_new(&parts->engine, store, targets, &features, &parts->test_set);
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
    const char *called = origin(parts) ? checkpoint_path(origin(parts)) : "this training";
    struct feature_input_options features = checkpoint_features(&parts->facts, called);
    return feature_input_new(&parts->engine, &features, store_info(parts->store),
                             FEATURES_FROM_FEED, rows, &parts->input);
}

static struct feed_options feed_options(const struct training_parts *parts, bool expand)
{
    const struct training_options *options = parts->options;
    return (struct feed_options){
        .sampler_url = options->sampler_url,
        .stream = options->stream,
        .store = parts->store,
        .device = parts->engine.device,
        .pull = FEED_GRANTED,
        .expected = &parts->facts.position.stream,
        .batches = -1,
        .batch_rows = (size_t)options->batch_rows,
        .cache_bytes = (size_t)options->cache_bytes,
        .bad_rows = options->bad_rows,
        .expand = expand,
        .scale = parts->facts.feature_scale,
        .patience_ms = options->patience_ms,
    };
}

/* The feed scales bytes only: what was measured of other features lacks the factor. */
static void scale_norm(const struct training_parts *parts, struct feature_norm *norm)
{
    bool scaled = store_info(parts->store)->element == ELEMENT_U8;
    for (size_t i = 0; i < norm->features && !scaled; i++) {
        norm->mean[i] *= parts->facts.feature_scale;
        norm->deviation[i] *= parts->facts.feature_scale;
    }
}

static enum error measure_norm(struct training_parts *parts)
{
    struct feed_options feed = feed_options(parts, true);
    struct model_options *model = &parts->facts.model;
    struct normalization found;
    int64_t begin_ns = clock_now_ns();
    enum error error =
        normalization_measure(&feed, parts->facts.position.stream.epoch_draws, &found);
    parts->facts.norm = found.norm;
    if (error)
        return error;
    scale_norm(parts, &parts->facts.norm);
    if (model->shape.kind == MODEL_LINEAR) {
        model->target_mean = found.target_mean;
        model->target_deviation = found.target_deviation;
    }
    log_info("features%s are normalized with their mean and deviation over %" PRId64
             " rows, read in %.1f s",
             model->shape.kind == MODEL_LINEAR ? " and the target" : "", found.rows,
             (double)(clock_now_ns() - begin_ns) / 1e9);
    return OK;
}

static enum error choose_norm(struct training_parts *parts)
{
    const struct checkpoint_facts *saved = origin_facts(parts);
    if (!saved)
        return parts->options->normalize ? measure_norm(parts) : OK;
    parts->facts.model.target_mean = saved->model.target_mean;
    parts->facts.model.target_deviation = saved->model.target_deviation;
    return feature_norm_copy(&parts->facts.norm, &saved->norm);
}

enum error training_parts_open_feed(struct training_parts *parts)
{
    struct feed_options feed = feed_options(parts, !feature_input_is_bytes(parts->input));
    const struct index_set *done = &parts->facts.done;
    int64_t end = index_set_end(done);
    struct index_range gap = index_set_gap(done, 0, end);
    feed.resident_bytes = parts->options->keeps_resident ? FEED_RESIDENT_AUTO : 0;
    feed_close(parts->feed);
    parts->feed = NULL;
    enum error error = feed_open(&feed, &parts->feed);
    if (error || parts->exchange) /* a worker's batches are granted by server 0 */
        return error;
    for (; !error && gap.first < gap.end; gap = index_set_gap(done, gap.end, end))
        error = feed_grant(parts->feed, gap.first, gap.end - gap.first);
    return error ? error : feed_grant(parts->feed, end, -1);
}

enum error training_parts_open(struct training_parts *parts)
{
    parts->facts.model = parts->options->model;
    enum error error = open_store(parts);
    if (!error)
        error = ask_sampler(parts);
    if (!error)
        error = ask_classes(parts);
    if (!error)
        error = targets_new(parts->facts.classes, parts->store, &parts->targets);
    if (!error)
        error = engine_open(&parts->options->engine, &parts->engine);
    if (!error)
        error = choose_norm(parts);
    if (!error)
        error = make_model(parts);
    if (!error)
        error = load_tests(parts);
    if (!error)
        error = make_buffers(parts);
    if (error)
        return error;
    warn_of_fractions(parts);
    if (parts->options->bad_rows == BAD_ROWS_REPLACE)
        targets_allow_zero(parts->targets);
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
