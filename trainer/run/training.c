/* SPDX-License-Identifier: MIT */
/*
 * The loop. The stream position moves past a batch together with the model's step, and both are
 * saved together: a restart goes on with the batch that would have come next.
 */
#include "trainer/run/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/run/baseline.h"
#include "trainer/run/best_model.h"
#include "trainer/run/evaluator.h"
#include "trainer/run/parameter_server.h"
#include "trainer/run/report.h"
#include "trainer/run/summary.h"
#include "trainer/run/training_parts.h"

#define LOSS_EVERY_CUDA 20 /* steps, of which one loss is copied; the CPU has each at hand */
#define CHECK_MS 1000      /* for the sampler's answer after a save */
#define IDLE_LOSSES 10     /* in a row, before the warning that nothing is learned */
#define WINDOW_LOSSES 100  /* whose mean is compared with the baseline */
#define LEARNT 0.98        /* a loss below this times the baseline shows that something was */
#define FOLDER_LIMIT_BYTES 8192

/* What the report's thread checks every few seconds. */
struct watch {
    const char *url, *stream;
    struct stream_position position; /* of the training's begin */
    _Atomic bool changed;            /* the sampler has another order; see `report` */
    struct error_report report;
};

/* A loss that was asked for: on a GPU it is looked at when the device is sure to be past it, so
 * that the host never waits for work that it has only just given. */
struct asked_loss {
    int64_t step, index; /* the step that its batch made, and that batch */
    int64_t later;       /* batches of this process since then */
    bool is_pending;
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
    struct summary *summary; /* NULL: before the first batch, or there are to be none */
    int64_t next_save_ns;    /* the chief of a cluster, which saves nothing: histograms */
    int64_t tested_step;     /* of `score`; -1: none */
    struct model_score score;
    struct saver *saver;
    struct best_model *best; /* NULL: no tests, or a cluster's */
    bool started;            /* the first batch came */
    bool unsavable;          /* diverged: what is on disk is better */
    bool refused;            /* the last loss is that of a step that was not made */
    struct asked_loss asked;
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

static double loss_a_row(const struct model_score *score)
{
    return score->rows ? score->loss_sum / (double)score->rows : 0;
}

/* ERROR_CONFLICT when `now` has another order than the stream of `position`. */
static enum error compare_order(const struct stream_position *position,
                                const struct sampler_stream *now)
{
    struct stream_position theirs = *position;
    theirs.stream = *now;
    enum error error = sampler_order_compare(position, "this training", &theirs);
    return error ? error_prefix(error, "the sampler changed while it was trained from: ") : OK;
}

/* On the report's thread. */
static void watch_order(void *context)
{
    struct watch *watch = context;
    struct sampler_stream now;
    if (atomic_load(&watch->changed) || stop_requested() ||
        sampler_order_peek(watch->url, watch->stream, &now))
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
        sampler_order_fetch(options->sampler_url, options->stream, CHECK_MS, &now))
        return OK;
    return compare_order(&training->parts.facts.position, &now);
}

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

/* Waits for a save that is going on, and says how it ended; OK if there is none. */
static enum error end_save(struct training *training)
{
    int64_t step;
    enum error error = saver_finish(training->saver, &step);
    best_model_put(training->best, saver_take_best(training->saver));
    if (error)
        return say_not_saved(training, step, error);
    if (step < 0)
        return OK;
    log_info("saved %s", logdir_newest_path(training->parts.logdir));
    summary_checkpoint(training->summary, step, logdir_newest_path(training->parts.logdir));
    return OK;
}

/* A failed save is tried again. A state that is not finite will not be better the next time. */
static enum error put_off_save(struct training *training, enum error error)
{
    training->unsavable |= error == ERROR_INPUT;
    if (!error || error == ERROR_INPUT)
        return error;
    training->next_save_ns = saver_retry_ns(training->options->save_ms);
    log_warning("%s; it is tried again", error_message());
    return OK;
}

static enum error finish_save(struct training *training)
{
    return put_off_save(training, end_save(training));
}

static enum error begin_save(struct training *training)
{
    struct training_parts *parts = &training->parts;
    struct checkpoint_snapshot *snapshot = NULL;
    training->next_save_ns = clock_deadline_ns(training->options->save_ms);
    enum error error = checkpoint_snapshot_new(parts->model, &parts->facts, &snapshot);
    if (!error) {
        saver_add_best(training->saver, best_model_take(training->best));
        error = saver_start(training->saver, snapshot);
        if (error)
            best_model_put(training->best, saver_take_best(training->saver));
    }
    if (!error)
        summary_parameters(training->summary, parts->engine.kernel, parts->model);
    return error ? say_not_saved(training, global_step(training), error) : OK;
}

/* Saves the state of now, and waits until it is on disk. */
static enum error save(struct training *training)
{
    enum error error = finish_save(training);
    if (!error)
        error = begin_save(training);
    if (error)
        return error;
    error = end_save(training);
    training->unsavable |= error != OK;
    return error;
}

static enum error save_in_time(struct training *training)
{
    if (saver_is_busy(training->saver))
        return saver_is_done(training->saver) ? finish_save(training) : OK;
    if (training->options->save_ms == 0 || clock_now_ns() < training->next_save_ns)
        return OK;
    return put_off_save(training, begin_save(training));
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

/* Does this process show the parameters, of which all workers have the same? */
static bool shows_parameters(const struct training *training)
{
    return training->parts.exchange && training->options->cluster->is_chief;
}

/* As TensorFlow's chief did, this training's writes into the logdir. What other workers come to
 * stands in folders of their own, which TensorBoard shows as runs. */
static enum error open_summary(struct training *training)
{
    const struct training_options *options = training->options;
    const struct cluster *cluster = options->cluster;
    struct buffer folder = BUFFER_INIT(FOLDER_LIMIT_BYTES);
    struct summary_options summary = {.seconds = options->summary_seconds,
                                      .step = global_step(training),
                                      .has_accuracy = training->parts.facts.classes != NULL,
                                      .has_staleness = training->parts.exchange &&
                                                       training->options->aggregate == 0,
                                      .optimizer = &options->model.optimizer};
    if (options->summary_seconds <= 0)
        return OK;
    buffer_add_text(&folder, options->logdir);
    if (!cluster->is_chief)
        buffer_print(&folder, "/worker-%" PRId64, cluster->index);
    summary.folder = folder.data;
    enum error error = folder.error ? folder.error : summary_open(&summary, &training->summary);
    buffer_release(&folder);
    return error;
}

static enum error begin(struct training *training)
{
    struct training_parts *parts = &training->parts;
    if (training->started)
        return OK;
    training->started = true;
    enum error error = open_summary(training);
    if (error || !parts->exchange)
        return error ? error : save_first(training);
    if (shows_parameters(training) && global_step(training) == 0)
        summary_parameters(training->summary, parts->engine.kernel, parts->model);
    return OK;
}

/* Scores the test set at the step of now, once. */
static enum error test(struct training *training)
{
    struct training_parts *parts = &training->parts;
    if (training->tested_step == global_step(training))
        return OK;
    enum error error = test_set_score(parts->test_set, parts->model, &training->score);
    if (!error)
        error = best_model_consider(training->best, parts->model, loss_a_row(&training->score));
    if (!error)
        training->tested_step = global_step(training);
    return error;
}

/* How many tests there were since the best one, whatever was interrupted. */
static bool is_stale(const struct training *training)
{
    const struct training_options *options = training->options;
    int64_t best = options->early_stopping > 0 ? best_model_step(training->best) : -1;
    int64_t every = options->test_every;
    return best >= 0 && global_step(training) / every - best / every >= options->early_stopping;
}

static void show_test(const struct training *training)
{
    const struct model_score *score = &training->score;
    report_test(training->report, accuracy_of(score),
                model_score_loss(training->parts.model, score));
    summary_test(training->summary, training->tested_step, loss_a_row(score), accuracy_of(score));
}

/* `before`: the global step before the latest batch; others may have made steps meanwhile. */
static enum error test_in_time(struct training *training, int64_t before)
{
    int64_t every = training->options->test_every;
    if (!training->parts.test_set || every == 0 || global_step(training) / every == before / every)
        return OK;
    report_pause_begin(training->report);
    enum error error = test(training);
    report_pause_end(training->report);
    if (!error)
        show_test(training);
    return error;
}

static enum error find_gradient(struct training *training, const struct feed_batch *feed_batch,
                                struct model_batch *ret_batch)
{
    struct training_parts *parts = &training->parts;
    *ret_batch = (struct model_batch){.index = feed_batch->index,
                                      .rows = feed_batch->rows,
                                      .scale = parts->facts.feature_scale,
                                      .classes = parts->classes,
                                      .targets = parts->numbers};
    enum error error = targets_convert(parts->targets, feed_batch->ids, feed_batch->labels,
                                       feed_batch->rows, parts->classes, parts->numbers);
    if (!error)
        error = begin(training);
    if (!error)
        baseline_add(&training->progress.baseline, parts->classes, parts->numbers,
                     feed_batch->rows);
    if (feature_input_is_bytes(parts->input))
        ret_batch->bytes = feed_batch->features;
    else if (!error)
        error = feature_input_take(parts->input, feed_batch->features, feed_batch->rows,
                                   &ret_batch->features);
    if (!error)
        error = model_gradient(parts->model, ret_batch);
    return error;
}

/* The servers may want it computed again, with newer values. */
static enum error push(struct training_parts *parts, int64_t index, const struct model_batch *batch)
{
    bool again;
    enum error error = exchange_push(parts->exchange, index, batch->rows, &again);
    while (!error && again) {
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped before batch %" PRId64 " was learnt from",
                             index);
        error = model_gradient(parts->model, batch);
        if (!error)
            error = exchange_push(parts->exchange, index, batch->rows, &again);
    }
    return error;
}

/* What the gradient of batch `index` changes: here, or on the parameter servers. */
static enum error learn(struct training *training, int64_t index, const struct model_batch *batch)
{
    struct training_parts *parts = &training->parts;
    if (parts->exchange)
        return push(parts, index, batch);
    enum error error = batch->rows > 0 ? model_apply(parts->model) : OK;
    if (!error)
        error = index_set_add(&parts->facts.done, (struct index_range){index, index + 1});
    return error;
}

/* Saturated outputs have no gradient: further steps change nothing, while the loss looks
 * like a loss. A loss of 0 has none either, and is right. */
static void notice_idleness(struct training *training, double loss, bool moves)
{
    bool idle = loss > 0 && !moves && !training->idle_warned;
    training->idle_losses = idle ? training->idle_losses + 1 : 0;
    if (training->idle_losses < IDLE_LOSSES)
        return;
    training->idle_warned = true;
    log_warning("step %" PRId64
                ": the loss is %g and the gradient exactly zero, %d times in a row: nothing "
                "is learned any more; start over in another --logdir with --loss mean, a smaller "
                "--learning-rate, or a smaller --feature-scale",
                training->asked.step - 1, loss, IDLE_LOSSES);
}

static bool is_on_gpu(const struct training *training)
{
    return training->parts.engine.device->kind == DEVICE_CUDA;
}

/* Every how many steps the loss is read. */
static int64_t loss_every(const struct training *training)
{
    return is_on_gpu(training) ? LOSS_EVERY_CUDA : 1;
}

static const char *normalize_advice(const struct training *training)
{
    return training->parts.facts.norm.features > 0 ? "" : "--normalize (in another --logdir) or ";
}

/* The request shows the batch that brought it; where losses are read seldom, an earlier one may
 * have been the first. */
static enum error refuse_loss(struct training *training, double loss)
{
    const struct training_options *options = training->options;
    const struct logdir *logdir = training->parts.logdir;
    int64_t index = training->asked.index;
    char newest[ERROR_MESSAGE_BYTES] = "";
    enum error error = logdir ? finish_save(training) : OK;
    training->unsavable = training->refused = true;
    if (error)
        return error;
    if (logdir)
        snprintf(newest, sizeof(newest), "; %.600s (step %" PRId64 ") stays the newest checkpoint",
                 logdir_newest_path(logdir), logdir_newest_step(logdir));
    return error_set(ERROR_INPUT,
                     "training diverged: the loss of step %" PRId64 " is %g, on batch %" PRId64
                     "%s (%s/batch?size=%" PRId64 "&index=%" PRId64 "&stream=%s shows its rows)%s "
                     "(features that are not finite may be the matter; %sa smaller "
                     "--learning-rate may help)",
                     training->asked.step, loss, index,
                     loss_every(training) > 1 ? " or shortly before" : "", options->sampler_url,
                     options->batch_rows, index, options->stream, newest,
                     normalize_advice(training));
}

/* Asks for the score of batch `index`, which makes the next step, and takes what was asked for long
 * enough ago; no rows: nothing was. */
static enum error read_score(struct training *training, int64_t index,
                             struct model_score *ret_score)
{
    struct model *model = training->parts.model;
    struct asked_loss *asked = &training->asked;
    int64_t step = global_step(training) + 1;
    *ret_score = (struct model_score){.rows = 0};
    if (!asked->is_pending && step % loss_every(training) == 0) {
        enum error error = model_send_score(model);
        if (error)
            return error;
        *asked = (struct asked_loss){.step = step, .index = index, .is_pending = true};
    }
    if (!asked->is_pending || asked->later++ < (is_on_gpu(training) ? NETWORK_AHEAD + 1 : 0))
        return OK;
    asked->is_pending = false;
    enum error error = model_take_score(model, ret_score);
    if (error)
        return error;
    double loss = model_score_loss(model, ret_score);
    if (!isfinite(loss))
        return refuse_loss(training, loss);
    notice_idleness(training, loss, ret_score->moving > 0);
    return OK;
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

/* A batch of `rows` was trained. `before`: the global step until then. */
static void show_step(struct training *training, int64_t before, int64_t rows,
                      const struct model_score *score)
{
    struct summary_step step = {.before = before,
                                .step = global_step(training),
                                .rows = rows,
                                .judged_rows = score->rows,
                                .loss = loss_a_row(score),
                                .correct = score->correct,
                                .wait_ns = report_wait_ns(training->report)};
    if (score->rows > 0)
        follow_progress(&training->progress, step.loss);
    report_step(training->report, step.step, rows,
                score->rows > 0 ? model_score_loss(training->parts.model, score) : NAN);
    summary_step(training->summary, &step);
}

/* The stream ended for a worker: what it holds beyond is given back, and what others left of the
 * stream may still come. */
static enum error end_stream(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = exchange_end_stream(parts->exchange, feed_end_index(parts->feed));
    return error ? error : training_parts_open_feed(parts);
}

/* One batch from the feed to the model and back. */
static enum error train_batch(struct training *training)
{
    struct training_parts *parts = &training->parts;
    const struct feed_batch *batch = NULL;
    struct model_score score;
    int64_t before = global_step(training);
    report_wait_begin(training->report);
    enum error error = feed_next(parts->feed, parts->engine.queue, &batch);
    report_wait_end(training->report);
    if (error == ERROR_END && parts->exchange)
        return end_stream(training);
    if (error)
        return error;
    int64_t rows = (int64_t)batch->rows, index = batch->index; /* the batch ends with feed_put() */
    struct model_batch model_batch = {.rows = 0};
    if (parts->exchange && !exchange_take(parts->exchange, index)) /* not this worker's any more */
        return feed_put(parts->feed, parts->engine.queue, batch);
    if (rows > 0) /* with --bad_rows skip a batch may be left with none */
        error = find_gradient(training, batch, &model_batch);
    if (!error && rows > 0)
        error = read_score(training, index, &score);
    if (!error)
        error = learn(training, index, &model_batch);
    if (!error)
        error = feed_put(parts->feed, parts->engine.queue, batch);
    if (error || rows == 0)
        return error;
    show_step(training, before, rows, &score);
    return test_in_time(training, before);
}

static void show_parameters_in_time(struct training *training)
{
    if (!shows_parameters(training) || training->options->save_ms == 0 ||
        clock_now_ns() < training->next_save_ns)
        return;
    training->next_save_ns = clock_deadline_ns(training->options->save_ms);
    summary_parameters(training->summary, training->parts.engine.kernel, training->parts.model);
}

/* A worker's batches: server 0 says when there are no more. */
static enum error work(struct training *training)
{
    enum error error = OK;
    while (!error) {
        if (stop_requested())
            return ERROR_CANCELLED;
        error = exchange_refill(training->parts.exchange, training->parts.feed);
        if (error == ERROR_END) {
            /* A test of this very step may have been of values that lacked what another worker's
             * gradient had not changed yet on a server; those of now are the last. */
            training->tested_step = -1;
            return OK;
        }
        if (!error)
            error = train_batch(training);
        if (!error)
            error = heed_watch(training);
        if (!error)
            show_parameters_in_time(training);
    }
    return error;
}

static enum error loop(struct training *training)
{
    enum error error = OK;
    while (!error && global_step(training) < training->options->train_steps &&
           !is_stale(training)) {
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
        log_info("step %" PRId64 ": loss %g", global_step(training) + training->refused, loss);
}

/* An evaluator waits for a checkpoint that says it: one that was saved at this step before it was
 * known does not. */
static bool is_end_to_be_told(const struct training *training)
{
    const struct checkpoint *begin = training->parts.checkpoint;
    return training->parts.facts.position.ended &&
           !(begin && checkpoint_step(begin) == global_step(training) &&
             checkpoint_get_facts(begin)->position.ended);
}

/* Is there something to save? Before the first batch only an empty stream has ended. */
static bool may_save(const struct training *training, enum error reason)
{
    int64_t newest = logdir_newest_step(training->parts.logdir);
    return !training->unsavable && (newest >= 0 || !reason) &&
           (global_step(training) != newest || is_end_to_be_told(training));
}

/* What every end has in common: the last loss is logged and the state that was reached is saved,
 * whatever the reason. Returns the reason; a save that fails after another failure is logged. */
static enum error save_at_end(struct training *training, enum error reason)
{
    struct error_report report;
    error_report_take(reason, &report);
    log_last_loss(training);
    enum error error = finish_save(training);
    if (!error && !may_save(training, reason)) {
        if (best_model_save(training->best))
            log_error("the best model was not saved: %s", error_message());
        return error_restore(&report);
    }
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
                         stop_signal_name());
    return error_set(ERROR_CANCELLED,
                     "stopped by %s after step %" PRId64 "; start again with the same --logdir to "
                     "go on from %s",
                     stop_signal_name(), global_step(training),
                     logdir_newest_path(training->parts.logdir));
}

static void say_best(const struct training *training)
{
    const struct best_model *best = training->best;
    if (best_model_step(best) < 0)
        return;
    if (is_stale(training))
        log_info("stopped early: no lower test loss in %" PRId64 " %s",
                 training->options->early_stopping,
                 text_plural(training->options->early_stopping, "test", "tests"));
    log_info("the test loss was lowest at step %" PRId64 ", %g a row: --best of evaluate, predict "
             "and export takes that model",
             best_model_step(best), best_model_loss(best));
}

static enum error finish(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = OK;
    report_end(training->report);
    if (parts->test_set) {
        error = test(training);
        if (!error)
            error = best_model_save(training->best);
        if (error)
            return error;
        show_test(training);
    }
    say_best(training);
    struct feed_stats stats;
    feed_get_stats(parts->feed, &stats);
    report_bad_rows(stats.bad_rows, training->options->bad_rows);
    warn_of_no_progress(training);
    report_done(training->report, parts->test_set != NULL, accuracy_of(&training->score),
                parts->test_set ? model_score_loss(parts->model, &training->score) : 0);
    log_info("next: tombola-trainer evaluate --store '%s' --logdir '%s', or predict",
             training->options->test_store_uri ? training->options->test_store_uri : "TEST-STORE",
             training->options->logdir);
    return OK;
}

static enum error work_to_the_end(struct training *training)
{
    enum error error = work(training);
    struct error_report report;
    error_report_take(error, &report);
    log_last_loss(training);
    if (shows_parameters(training))
        summary_parameters(training->summary, training->parts.engine.kernel, training->parts.model);
    if (!error)
        return finish(training);
    if (error != ERROR_CANCELLED)
        return error_restore(&report);
    return error_set(ERROR_CANCELLED, "stopped by %s at step %" PRId64 "; the others go on",
                     stop_signal_name(), global_step(training));
}

static enum error train(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = OK;
    report_initialized(training->report);
    training->next_save_ns = clock_deadline_ns(training->options->save_ms);
    training->watch.url = training->options->sampler_url;
    training->watch.stream = training->options->stream;
    training->watch.position = parts->facts.position;
    report_begin(training->report, global_step(training));
    if (parts->exchange)
        return work_to_the_end(training);
    error = loop(training);
    if (error == ERROR_END) {
        log_info("the stream ended after %" PRId64 " of %" PRId64 " %s", global_step(training),
                 training->options->train_steps,
                 text_plural(training->options->train_steps, "step", "steps"));
        error = OK;
    }
    parts->facts.position.ended = !error && global_step(training) < training->options->train_steps;
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

/* The logdir has the last step already: are the options and what they name right? */
static enum error say_done(struct training *training)
{
    const struct checkpoint *checkpoint = training->parts.checkpoint;
    enum error error = training_parts_check(&training->parts);
    if (!error)
        log_info("%s has step %" PRId64 " of %" PRId64 ": nothing is left to train",
                 checkpoint_path(checkpoint), checkpoint_step(checkpoint),
                 training->options->train_steps);
    return error;
}

/* A signal may have cut the test of the step that was saved then. */
static enum error open_best(struct training *training)
{
    struct training_parts *parts = &training->parts;
    int64_t step = global_step(training), every = training->options->test_every;
    if (parts->exchange || !parts->test_set)
        return OK;
    enum error error = best_model_open(parts->logdir, &parts->facts, parts->test_set, parts->model,
                                       &training->best);
    return error || step == 0 || every == 0 || step % every > 0 ? error : test(training);
}

static enum error run(struct training *training)
{
    const struct training_options *options = training->options;
    struct report_options report = {.worker = options->cluster->index,
                                    .print_every = options->print_every,
                                    .last_step = options->train_steps,
                                    .squared = options->model.shape.kind == MODEL_LINEAR,
                                    .is_chief = options->cluster->is_chief,
                                    .check = watch_order,
                                    .context = &training->watch};
    enum error error = report_open(&report, &training->report);
    if (!error && !options->cluster->is_alone)
        error = training_parts_join(&training->parts, options);
    else if (!error)
        error = saver_open(training->parts.logdir, &training->saver);
    if (!error)
        error = training_parts_open(&training->parts);
    if (!error)
        error = open_progress(training);
    if (!error)
        error = open_best(training);
    if (!error)
        error = train(training);
    if (error != ERROR_END || options->cluster->is_alone)
        return error;
    log_info("%s", error_message()); /* a worker that came when all was done */
    return OK;
}

/* The chief's server, where there is no ps, ends with the training; a chief that fails takes it
 * along. After a signal the server knows what is saved. */
static enum error end_server(struct parameter_server *server, const struct error_report *report)
{
    enum error of_server = parameter_server_join(server, report->code != OK);
    bool stopped = report->code == ERROR_CANCELLED && of_server == ERROR_CANCELLED;
    return report->code && !stopped ? error_restore(report) : of_server;
}

enum error training_run(const struct training_options *options)
{
    const struct cluster *cluster = options->cluster;
    struct training training = {.options = options, .tested_step = -1};
    struct parameter_server *server = NULL;
    bool done = false;
    enum error error = OK;
    if (cluster->role == CLUSTER_PS)
        return parameter_server_run(options);
    if (cluster->role == CLUSTER_EVALUATOR)
        return evaluator_run(options);
    if (cluster_runs_server(cluster))
        error = parameter_server_start(options, &server);
    if (!error && cluster->is_alone)
        error = training_parts_take_logdir(&training.parts, options, &done);
    if (!error)
        error = done ? say_done(&training) : run(&training);
    struct error_report report; /* what is closed may fail, too: output that nobody reads */
    error_report_take(error, &report);
    summary_close(training.summary);
    report_close(training.report);
    baseline_release(&training.progress.baseline);
    saver_close(training.saver);
    best_model_close(training.best);
    training_parts_close(&training.parts);
    return end_server(server, &report);
}
