/* SPDX-License-Identifier: MIT */
/* What a training's batches consist of: the store's features and their scale, the sampler's order
 * and classes, the feed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/feed/stream_check.h"
#include "loader/store/feature_range.h"
#include "loader/store_apart.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/run/normalization.h"
#include "trainer/run/training_parts_private.h"

/* ---- the checkpoint ------------------------------------------------------- */

const struct checkpoint *training_parts_origin(const struct training_parts *parts)
{
    if (parts->checkpoint)
        return parts->checkpoint;
    return parts->initial && checkpoint_has_facts(parts->initial) ? parts->initial : NULL;
}

/* NULL: there are none. */
static const struct checkpoint_facts *origin_facts(const struct training_parts *parts)
{
    const struct checkpoint *origin = training_parts_origin(parts);
    return origin ? checkpoint_get_facts(origin) : NULL;
}

const struct checkpoint_facts *training_parts_saved_facts(const struct training_parts *parts)
{
    return parts->checkpoint ? checkpoint_get_facts(parts->checkpoint) : NULL;
}

/* ---- the store's features ------------------------------------------------ */

enum error training_parts_compare_scale(const struct training_parts *parts)
{
    float saved = origin_facts(parts)->feature_scale;
    float given = parts->options->feature_scale;
    if (given == 0 || given == saved)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s was trained with features times %g; this run has --feature-scale %g",
                     checkpoint_path(training_parts_origin(parts)), (double)saved, (double)given);
}

/* A resumed training may omit --normalize, but not introduce it. */
enum error training_parts_compare_norm(const struct training_parts *parts)
{
    if (!parts->options->normalize || origin_facts(parts)->norm.features > 0)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s was trained without --normalize, which its parameters do not fit; %s",
                     checkpoint_path(training_parts_origin(parts)),
                     parts->checkpoint ? "train with it in another --logdir" : "leave it out");
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
        enum error error = training_parts_compare_scale(parts);
        if (!error)
            error = training_parts_compare_norm(parts);
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

enum error training_parts_open_store(struct training_parts *parts)
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
        error = checkpoint_check_recipe(saved->recipe,
                                        checkpoint_path(training_parts_origin(parts)), info);
    if (error)
        return error;
    parts->facts.recipe = saved ? saved->recipe : info->recipe;
    feature_recipe_keep(parts->facts.recipe);
    parts->facts.model.shape.features = saved ? saved->model.shape.features : info->features;
    error = choose_names(parts);
    if (!error && saved) {
        struct feature_input_options features =
            checkpoint_features(saved, checkpoint_path(training_parts_origin(parts)));
        error = feature_input_check(&features, info);
    }
    return error ? error : choose_scale(parts);
}

/* ---- the sampler's order and classes ------------------------------------- */

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
enum error training_parts_ask_sampler(struct training_parts *parts)
{
    const struct training_options *options = parts->options;
    const struct checkpoint_facts *saved = training_parts_saved_facts(parts);
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
        if (!error)
            error = sampler_order_check_epochs(&saved->position, &saved->done,
                                               checkpoint_path(parts->checkpoint), "was trained to",
                                               position->stream.epochs);
        if (error)
            return error;
        error = index_set_copy(&parts->facts.done, &saved->done);
        if (error)
            return error;
    }
    return stream_check_rows(&position->stream, options->sampler_url, store_info(parts->store),
                             options->bad_rows == BAD_ROWS_FAIL);
}

enum error training_parts_ask_classes(struct training_parts *parts)
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
        error = classes_compare(saved->classes, checkpoint_path(training_parts_origin(parts)),
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
void training_parts_warn_of_fractions(const struct training_parts *parts)
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

/* ---- the feed ------------------------------------------------------------ */

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

enum error training_parts_choose_norm(struct training_parts *parts)
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
