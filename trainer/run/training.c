/* SPDX-License-Identifier: MIT */
/*
 * The loop. The stream position moves past a batch together with the model's step, and both are
 * saved together: a restart goes on with the batch that would have come next.
 */
#include "trainer/run/training.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "trainer/run/report.h"
#include "trainer/run/training_parts.h"

#define LOSS_EVERY_CUDA 20 /* reading a loss waits for the device; the CPU has it at hand */
#define CHECK_MS 1000      /* for the sampler's answer after a save */
#define IDLE_LOSSES 10     /* in a row, before the warning that nothing is learned */

/* What the report's thread checks every few seconds. */
struct watch {
    const char *url, *stream;
    struct stream_position position; /* of the training's begin */
    _Atomic bool changed;            /* the sampler has another order; see `report` */
    struct error_report report;
};

struct training {
    struct training_parts parts;
    struct watch watch;
    const struct training_options *options;
    struct report *report;
    int64_t next_save_ns;
    int64_t tested_step; /* of `score`; -1: none */
    struct model_score score;
    bool unsavable;  /* diverged, or a save failed: what is on disk is better */
    int idle_losses; /* losses in a row that came with no gradient */
    bool idle_warned;
};

static int64_t global_step(const struct training *training)
{
    return model_get_step(training->parts.model);
}

static double accuracy_of(const struct model_score *score)
{
    return score->rows ? (double)score->correct / (double)score->rows : 0;
}

/* ERROR_CONFLICT when `now` has another order than the stream of `position`. */
static enum error compare_order(const struct stream_position *position,
                                const struct sampler_stream *now)
{
    struct stream_position theirs = *position;
    theirs.stream = *now;
    enum error error = stream_position_compare(position, "this training", &theirs);
    return error ? error_prefix(error, "the sampler changed while it was trained from: ") : OK;
}

/* On the report's thread. */
static void watch_order(void *context)
{
    struct watch *watch = context;
    struct sampler_stream now;
    if (atomic_load(&watch->changed) || stop_requested() ||
        stream_position_peek(watch->url, watch->stream, &now))
        return;
    enum error error = compare_order(&watch->position, &now);
    if (!error)
        return;
    error_report_take(error, &watch->report);
    atomic_store(&watch->changed, true);
}

static enum error heed_watch(struct training *training)
{
    if (!atomic_load_explicit(&training->watch.changed, memory_order_acquire))
        return OK;
    return error_restore(&training->watch.report);
}

/* What was trained on is of the old order to the last row (the feed compares the order on every new
 * connection), so it is saved first; but nothing more of it will come. No answer: no verdict. */
static enum error check_order(const struct training *training)
{
    const struct training_options *options = training->options;
    struct sampler_stream now;
    if (stop_requested() ||
        stream_position_fetch(options->sampler_url, options->stream, CHECK_MS, &now))
        return OK;
    return compare_order(&training->parts.facts.position, &now);
}

static enum error save(struct training *training)
{
    struct training_parts *parts = &training->parts;
    int64_t step = global_step(training), newest = logdir_newest_step(parts->logdir);
    enum error error = logdir_save(parts->logdir, parts->model, &parts->facts);
    if (error) {
        training->unsavable = true;
        if (newest >= 0)
            return error_prefix(error,
                                "step %" PRId64 " was not saved, training can go on from "
                                "step %" PRId64 " (%s): ",
                                step, newest, logdir_newest_path(parts->logdir));
        return error_prefix(error, "step %" PRId64 " was not saved: ", step);
    }
    log_info("saved %s", logdir_newest_path(parts->logdir));
    training->next_save_ns = clock_now_ns() + (int64_t)(training->options->save_seconds * 1e9);
    return OK;
}

static enum error save_in_time(struct training *training)
{
    if (training->options->save_seconds <= 0 || clock_now_ns() < training->next_save_ns)
        return OK;
    report_pause_begin(training->report);
    enum error error = save(training);
    if (!error)
        error = check_order(training);
    report_pause_end(training->report);
    return error;
}

/* The state that training begins with, once a batch has passed every check: a start that fails
 * leaves nothing behind that another one would have to agree with. */
static enum error save_first(struct training *training)
{
    if (logdir_newest_step(training->parts.logdir) >= 0)
        return OK;
    report_pause_begin(training->report);
    enum error error = save(training);
    report_pause_end(training->report);
    return error;
}

/* Scores the test set at the step of now, once. */
static enum error test(struct training *training)
{
    struct training_parts *parts = &training->parts;
    if (training->tested_step == global_step(training))
        return OK;
    enum error error = test_set_score(parts->test_set, parts->model, &training->score);
    if (!error)
        training->tested_step = global_step(training);
    return error;
}

static void show_test(const struct training *training)
{
    report_test(training->report, accuracy_of(&training->score),
                model_score_loss(training->parts.model, &training->score));
}

static enum error test_in_time(struct training *training)
{
    int64_t every = training->options->test_every;
    if (!training->parts.test_set || every == 0 || global_step(training) % every != 0)
        return OK;
    report_pause_begin(training->report);
    enum error error = test(training);
    report_pause_end(training->report);
    if (!error)
        show_test(training);
    return error;
}

/* The batch's features as the model takes them. */
static enum error scale_features(struct training *training, const struct feed_batch *batch,
                                 const float **ret_features)
{
    struct training_parts *parts = &training->parts;
    *ret_features = batch->features;
    if (!parts->scaled)
        return OK;
    *ret_features = parts->scaled;
    return device_scale_f32(parts->engine.device, parts->engine.queue, parts->scaled,
                            batch->features, batch->rows * parts->facts.model.shape.features,
                            parts->facts.feature_scale);
}

static enum error step_on(struct training *training, const struct feed_batch *feed_batch)
{
    struct training_parts *parts = &training->parts;
    struct model_batch batch = {
        .rows = feed_batch->rows, .classes = parts->classes, .targets = parts->numbers};
    enum error error = targets_convert(parts->targets, feed_batch->ids, feed_batch->labels,
                                       feed_batch->rows, parts->classes, parts->numbers);
    if (!error)
        error = save_first(training);
    if (!error)
        error = scale_features(training, feed_batch, &batch.features);
    if (!error)
        error = model_step(parts->model, &batch);
    return error;
}

/* Saturated outputs have no gradient: further steps change nothing, while the loss looks
 * like a loss. A loss of 0 has none either, and is right. */
static enum error notice_idleness(struct training *training, double loss)
{
    bool idle = false;
    enum error error = loss > 0 && !training->idle_warned
                           ? model_gradient_is_zero(training->parts.model, &idle)
                           : OK;
    training->idle_losses = idle ? training->idle_losses + 1 : 0;
    if (error || training->idle_losses < IDLE_LOSSES)
        return error;
    training->idle_warned = true;
    log_warning("step %" PRId64
                ": the loss is %g and the gradient exactly zero, %d times in a row: nothing "
                "is learned any more; start over in another --logdir with --loss mean, a smaller "
                "--learning-rate, or a smaller --feature-scale",
                global_step(training), loss, IDLE_LOSSES);
    return OK;
}

/* Every how many steps the loss is read. */
static int64_t loss_every(const struct training *training)
{
    return training->parts.engine.device->kind == DEVICE_CUDA ? LOSS_EVERY_CUDA : 1;
}

/* The request shows the batch that brought it; where losses are read seldom, an earlier one may
 * have been the first. */
static enum error refuse_loss(struct training *training, double loss, int64_t index)
{
    const struct training_options *options = training->options;
    const struct logdir *logdir = training->parts.logdir;
    training->unsavable = true;
    return error_set(ERROR_INPUT,
                     "training diverged: the loss of step %" PRId64 " is %g, on batch %" PRId64
                     "%s (%s/batch?size=%" PRId64 "&index=%" PRId64 "&stream=%s shows its rows); "
                     "%s (step %" PRId64 ") stays the newest checkpoint (features that are not "
                     "finite, or a smaller --learning-rate may be the matter)",
                     global_step(training), loss, index,
                     loss_every(training) > 1 ? " or shortly before" : "", options->sampler_url,
                     options->batch_rows, index, options->stream, logdir_newest_path(logdir),
                     logdir_newest_step(logdir));
}

/* The loss of the step that was just made, on batch `index`; NAN when it is not read at this
 * step. */
static enum error read_loss(struct training *training, int64_t index, double *ret_loss)
{
    *ret_loss = NAN;
    if (global_step(training) % loss_every(training) != 0)
        return OK;
    enum error error = model_loss(training->parts.model, ret_loss);
    if (error)
        return error;
    if (!isfinite(*ret_loss))
        return refuse_loss(training, *ret_loss, index);
    return notice_idleness(training, *ret_loss);
}

/* One batch from the feed to the model and back. */
static enum error train_batch(struct training *training)
{
    struct training_parts *parts = &training->parts;
    const struct feed_batch *batch = NULL;
    double loss = NAN;
    report_wait_begin(training->report);
    enum error error = feed_next(parts->feed, parts->engine.queue, &batch);
    report_wait_end(training->report);
    if (error)
        return error;
    int64_t rows = (int64_t)batch->rows, index = batch->index; /* the batch ends with feed_put() */
    if (rows > 0) /* with --bad_rows skip a batch may be left with none */
        error = step_on(training, batch);
    if (!error)
        error = feed_put(parts->feed, parts->engine.queue, batch);
    if (error)
        return error;
    parts->facts.position.next_index = index + 1;
    if (rows == 0)
        return OK;
    error = read_loss(training, index, &loss);
    if (error)
        return error;
    report_step(training->report, global_step(training), rows, loss);
    return test_in_time(training);
}

static enum error loop(struct training *training)
{
    enum error error = OK;
    while (!error && global_step(training) < training->options->train_steps) {
        if (stop_requested())
            return ERROR_CANCELLED;
        error = train_batch(training);
        if (!error)
            error = heed_watch(training);
        if (!error)
            error = save_in_time(training);
    }
    return error;
}

static void log_last_loss(const struct training *training)
{
    double loss;
    if (!model_loss(training->parts.model, &loss))
        log_info("step %" PRId64 ": loss %g", global_step(training), loss);
}

/* Is there something to save? Before the first batch only an empty stream has ended. */
static bool may_save(const struct training *training, enum error reason)
{
    int64_t newest = logdir_newest_step(training->parts.logdir);
    return !training->unsavable && global_step(training) != newest && (newest >= 0 || !reason);
}

/* What every end has in common: the last loss is logged and the state that was reached is saved,
 * whatever the reason. Returns the reason; a save that fails after another failure is logged. */
static enum error save_at_end(struct training *training, enum error reason)
{
    struct error_report report;
    error_report_take(reason, &report);
    log_last_loss(training);
    if (!may_save(training, reason))
        return error_restore(&report);
    report_pause_begin(training->report);
    enum error error = save(training);
    if (!error)
        error = check_order(training);
    report_pause_end(training->report);
    if (!error)
        return error_restore(&report);
    if (!reason || reason == ERROR_CANCELLED || error == reason)
        return error;
    log_error("%s", error_message());
    return error_restore(&report);
}

/* The sampler has another order now, or is paused. */
static enum error say_conflict(const struct training *training)
{
    const struct logdir *logdir = training->parts.logdir;
    struct error_report report;
    error_report_take(ERROR_CONFLICT, &report);
    if (logdir_newest_step(logdir) < 0)
        return error_restore(&report);
    return error_set(ERROR_CONFLICT,
                     "%.600s; step %" PRId64 " is saved (%s), all of it trained in the order of "
                     "before: a sampler of that order goes on from there",
                     report.message, logdir_newest_step(logdir), logdir_newest_path(logdir));
}

static enum error say_stopped(const struct training *training)
{
    if (logdir_newest_step(training->parts.logdir) < 0)
        return error_set(ERROR_CANCELLED, "stopped by %s before the first step; nothing was saved",
                         stop_signal() == SIGINT ? "SIGINT" : "SIGTERM");
    return error_set(ERROR_CANCELLED,
                     "stopped by %s after step %" PRId64 "; start again with the same --logdir to "
                     "go on from %s",
                     stop_signal() == SIGINT ? "SIGINT" : "SIGTERM", global_step(training),
                     logdir_newest_path(training->parts.logdir));
}

static enum error finish(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = OK;
    report_end(training->report);
    if (parts->test_set) {
        error = test(training);
        if (error)
            return error;
        show_test(training);
    }
    struct feed_stats stats;
    feed_get_stats(parts->feed, &stats);
    if (stats.bad_rows > 0)
        log_warning("%" PRId64 " bad rows were %s", stats.bad_rows,
                    training->options->bad_rows == BAD_ROWS_SKIP ? "left out"
                                                                 : "replaced by zeros");
    report_done(training->report, parts->test_set != NULL, accuracy_of(&training->score),
                parts->test_set ? model_score_loss(parts->model, &training->score) : 0);
    return OK;
}

static enum error train(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = OK;
    report_initialized(training->report);
    training->next_save_ns = clock_now_ns() + (int64_t)(training->options->save_seconds * 1e9);
    training->watch.url = training->options->sampler_url;
    training->watch.stream = training->options->stream;
    training->watch.position = parts->facts.position;
    report_begin(training->report, global_step(training));
    error = loop(training);
    if (error == ERROR_END) {
        log_info("the stream ended after %" PRId64 " of %" PRId64 " %s", global_step(training),
                 training->options->train_steps,
                 text_plural(training->options->train_steps, "step", "steps"));
        error = OK;
    }
    error = save_at_end(training, error);
    if (error == ERROR_CANCELLED)
        return say_stopped(training);
    if (error == ERROR_CONFLICT)
        return say_conflict(training);
    return error ? error : finish(training);
}

enum error training_run(const struct training_options *options)
{
    struct training training = {.options = options, .tested_step = -1};
    struct report_options report = {.print_every = options->print_every,
                                    .last_step = options->train_steps,
                                    .squared = options->model.shape.kind == MODEL_LINEAR,
                                    .check = watch_order,
                                    .context = &training.watch};
    bool done = false;
    enum error error = training_parts_take_logdir(&training.parts, options, &done);
    if (error)
        goto out;
    if (done) {
        error = training_parts_check(&training.parts);
        if (error)
            goto out;
        log_info("%s has step %" PRId64 " of %" PRId64 ": nothing is left to train",
                 checkpoint_path(training.parts.checkpoint),
                 checkpoint_step(training.parts.checkpoint), options->train_steps);
        goto out;
    }
    error = report_open(&report, &training.report);
    if (!error)
        error = training_parts_open(&training.parts);
    if (!error)
        error = train(&training);
out:
    report_close(training.report);
    training_parts_close(&training.parts);
    return error;
}
