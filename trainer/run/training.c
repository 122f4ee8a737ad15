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
#include "trainer/run/baseline.h"
#include "trainer/run/report.h"
#include "trainer/run/saver.h"
#include "trainer/run/training_parts.h"

#define LOSS_EVERY_CUDA 20 /* reading a loss waits for the device; the CPU has it at hand */
#define CHECK_MS 1000      /* for the sampler's answer after a save */
#define IDLE_LOSSES 10     /* in a row, before the warning that nothing is learned */
#define WINDOW_LOSSES 100  /* whose mean is compared with the baseline */
#define LEARNT 0.98        /* a loss below this times the baseline shows that something was */
#define RETRY_SECONDS 30.0 /* at most, after a save that failed */

/* What the report's thread checks every few seconds. */
struct watch {
    const char *url, *stream;
    struct stream_position position; /* of the training's begin */
    _Atomic bool changed;            /* the sampler has another order; see `report` */
    struct error_report report;
};

/* What the losses come to beside those of a constant answer. */
struct progress {
    struct baseline baseline;
    double sum;    /* of the losses a row, since the last window was full */
    int64_t count; /* of them */
    int64_t windows;
    double window; /* the mean of the latest full window */
};

struct training {
    struct training_parts parts;
    struct watch watch;
    const struct training_options *options;
    struct report *report;
    int64_t next_save_ns;
    int64_t tested_step; /* of `score`; -1: none */
    struct model_score score;
    struct saver *saver;
    bool started;   /* the first batch came */
    bool unsavable; /* diverged: what is on disk is better */
    struct progress progress;
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

/* Says what a failed save leaves. */
static enum error say_not_saved(const struct training *training, int64_t step, enum error error)
{
    const struct logdir *logdir = training->parts.logdir;
    if (logdir_newest_step(logdir) < 0)
        return error_prefix(error, "step %" PRId64 " was not saved: ", step);
    return error_prefix(
        error,
        "step %" PRId64 " was not saved, training can go on from step %" PRId64 " (%s): ", step,
        logdir_newest_step(logdir), logdir_newest_path(logdir));
}

/* Takes the result of a save that was going on; a failed one is tried again. A state that is not
 * finite will not be better the next time. */
static enum error finish_save(struct training *training)
{
    double seconds = training->options->save_seconds;
    int64_t step;
    enum error error = saver_finish(training->saver, &step);
    if (!error && step >= 0)
        log_info("saved %s", logdir_newest_path(training->parts.logdir));
    if (!error)
        return OK;
    error = say_not_saved(training, step, error);
    training->unsavable = error == ERROR_INPUT;
    if (training->unsavable)
        return error;
    seconds = seconds > 0 && seconds < RETRY_SECONDS ? seconds : RETRY_SECONDS;
    training->next_save_ns = clock_now_ns() + (int64_t)(seconds * 1e9);
    log_warning("%s; it is tried again", error_message());
    return OK;
}

static enum error begin_save(struct training *training)
{
    struct training_parts *parts = &training->parts;
    struct checkpoint_snapshot *snapshot = NULL;
    training->next_save_ns = clock_now_ns() + (int64_t)(training->options->save_seconds * 1e9);
    enum error error = checkpoint_snapshot_new(parts->model, &parts->facts, &snapshot);
    return error ? error : saver_start(training->saver, snapshot);
}

/* Saves the state of now, and waits until it is on disk. */
static enum error save(struct training *training)
{
    int64_t step;
    enum error error = finish_save(training);
    if (!error)
        error = begin_save(training);
    if (error)
        return error;
    error = saver_finish(training->saver, &step);
    if (error) {
        training->unsavable = true;
        return say_not_saved(training, step, error);
    }
    log_info("saved %s", logdir_newest_path(training->parts.logdir));
    return OK;
}

static enum error save_in_time(struct training *training)
{
    if (saver_is_busy(training->saver))
        return saver_is_done(training->saver) ? finish_save(training) : OK;
    if (training->options->save_seconds <= 0 || clock_now_ns() < training->next_save_ns)
        return OK;
    return begin_save(training);
}

/* The state that training begins with, once a batch has passed every check: a start that fails
 * leaves nothing behind that another one would have to agree with. */
static enum error save_first(struct training *training)
{
    bool started = training->started;
    training->started = true;
    if (started || logdir_newest_step(training->parts.logdir) >= 0)
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
        baseline_add(&training->progress.baseline, parts->classes, parts->numbers,
                     feed_batch->rows);
    if (!error)
        error = feature_input_take(parts->input, feed_batch->features, feed_batch->rows,
                                   &batch.features);
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

static const char *normalize_advice(const struct training *training)
{
    return training->parts.facts.norm.features > 0 ? "" : "--normalize (in another --logdir) or ";
}

/* The request shows the batch that brought it; where losses are read seldom, an earlier one may
 * have been the first. */
static enum error refuse_loss(struct training *training, double loss, int64_t index)
{
    const struct training_options *options = training->options;
    const struct logdir *logdir = training->parts.logdir;
    enum error error = finish_save(training);
    training->unsavable = true;
    if (error)
        return error;
    return error_set(ERROR_INPUT,
                     "training diverged: the loss of step %" PRId64 " is %g, on batch %" PRId64
                     "%s (%s/batch?size=%" PRId64 "&index=%" PRId64 "&stream=%s shows its rows); "
                     "%s (step %" PRId64 ") stays the newest checkpoint (features that are not "
                     "finite may be the matter; %sa smaller --learning-rate may help)",
                     global_step(training), loss, index,
                     loss_every(training) > 1 ? " or shortly before" : "", options->sampler_url,
                     options->batch_rows, index, options->stream, logdir_newest_path(logdir),
                     logdir_newest_step(logdir), normalize_advice(training));
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

static void follow_progress(struct progress *progress, double loss)
{
    progress->sum += loss;
    if (++progress->count < WINDOW_LOSSES)
        return;
    progress->window = progress->sum / WINDOW_LOSSES;
    progress->windows++;
    progress->sum = 0;
    progress->count = 0;
}

/* At the end, when there was time to learn. */
static void warn_of_no_progress(const struct training *training)
{
    const struct progress *progress = &training->progress;
    const struct baseline *baseline = &progress->baseline;
    double constant = baseline_loss(baseline);
    if (progress->windows < 2 || baseline->rows < 10 * (int64_t)baseline->classes ||
        !(progress->window >= LEARNT * constant))
        return;
    log_warning(
        "the loss of the last %d steps is %g a row, and always answering %s would have %g: "
        "the model is no better than that; %sa smaller --learning-rate or more --train-steps "
        "may help",
        WINDOW_LOSSES, progress->window,
        baseline->classes > 0 ? "the labels' shares" : "the targets' mean", constant,
        normalize_advice(training));
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
    if (!isnan(loss))
        follow_progress(&training->progress,
                        loss_is_mean(parts->facts.model.loss) ? loss : loss / (double)rows);
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
    enum error error = finish_save(training);
    if (!error && !may_save(training, reason))
        return error_restore(&report);
    report_pause_begin(training->report);
    if (!error)
        error = save(training);
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
    warn_of_no_progress(training);
    report_done(training->report, parts->test_set != NULL, accuracy_of(&training->score),
                parts->test_set ? model_score_loss(parts->model, &training->score) : 0);
    log_info("next: tombola-trainer evaluate --store '%s' --logdir '%s', or predict",
             training->options->test_store_uri ? training->options->test_store_uri : "TEST-STORE",
             training->options->logdir);
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

static enum error open_progress(struct training *training)
{
    const struct classes *classes = training->parts.facts.classes;
    return baseline_init(&training->progress.baseline, classes ? classes->count : 0);
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
        error = saver_open(training.parts.logdir, &training.saver);
    if (!error)
        error = training_parts_open(&training.parts);
    if (!error)
        error = open_progress(&training);
    if (!error)
        error = train(&training);
out:
    report_close(training.report);
    baseline_release(&training.progress.baseline);
    saver_close(training.saver);
    training_parts_close(&training.parts);
    return error;
}
