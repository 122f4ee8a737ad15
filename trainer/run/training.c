/* SPDX-License-Identifier: MIT */
/*
 * The training loop. The stream position and the model's step advance together and are saved
 * together: a restart continues with the batch that would have come next.
 */
#include "trainer/run/training.h"

#include <inttypes.h>
#include <math.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/http/housekeeper.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/run/evaluator.h"
#include "trainer/run/parameter_server.h"
#include "trainer/run/training_private.h"

#define FOLDER_LIMIT_BYTES 8192
#define COMMAND_LIMIT_BYTES 32768
/* How often a worker without a batch asks whether the others have finished: seldom enough that they
 * can take over the batches it holds, which they may after 5 s of silence. */
#define LOOK_MS 10000

/* Does this process write histograms of the parameters? They are the same for all workers. */
static bool shows_parameters(const struct training *training)
{
    return training->parts.exchange && training->options->cluster->is_chief;
}

/* The chief writes into the logdir, as TensorFlow's did; other workers write into folders of their
 * own, which TensorBoard shows as runs. */
static enum error open_summary(struct training *training)
{
    const struct training_options *options = training->options;
    const struct cluster *cluster = options->cluster;
    struct buffer folder = BUFFER_INIT(FOLDER_LIMIT_BYTES);
    struct summary_options summary = {.below = !cluster->is_chief,
                                      .seconds = options->summary_seconds,
                                      .step = training_step(training),
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
        return error ? error : training_save_first(training);
    if (shows_parameters(training) && training_step(training) == 0)
        summary_parameters(training->summary, parts->engine.kernel, parts->model);
    return OK;
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
                                       feed_row_status(parts->feed, feed_batch), feed_batch->rows,
                                       parts->classes, parts->numbers);
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

/* The servers may ask to compute the gradient again from newer values. */
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

/* Applies the gradient of batch `index`: here, or on the parameter servers. */
static enum error learn(struct training *training, int64_t index, const struct model_batch *batch)
{
    struct training_parts *parts = &training->parts;
    if (parts->exchange)
        return push(parts, index, batch);
    /* Before the step, since this may fail for lack of memory: a step that was made but is not in
     * the set would be made again after a restart from the checkpoint. */
    struct index_range one = {index, index + 1};
    enum error error = index_set_add(&parts->facts.done, one);
    if (error || batch->rows == 0)
        return error;
    error = model_apply(parts->model);
    if (error && index_set_remove(&parts->facts.done, one))
        training->unsavable = true;
    return error;
}

/* Reports a trained batch of `rows`. `before`: the global step before it. */
static void show_step(struct training *training, int64_t before, int64_t rows,
                      const struct model_score *score)
{
    struct summary_step step = {.before = before,
                                .step = training_step(training),
                                .rows = rows,
                                .judged_rows = score->rows,
                                .loss = training_loss_a_row(score),
                                .correct = score->correct,
                                .wait_ns = report_wait_ns(training->report)};
    if (score->rows > 0)
        training_follow_loss(&training->progress, step.loss);
    report_step(training->report, step.step, rows,
                score->rows > 0 ? model_score_loss(training->parts.model, score) : NAN);
    summary_step(training->summary, &step);
}

/* The stream has ended for this worker: gives back the batches that it holds beyond the end, and
 * opens a new feed for batches that others may have left. */
static enum error end_stream(struct training *training)
{
    struct training_parts *parts = &training->parts;
    const struct training_options *options = parts->options;
    struct sampler_stream now;
    enum error error =
        sampler_order_fetch(options->sampler_url, options->stream, options->patience_ms, &now);
    if (!error)
        error = exchange_end_stream(parts->exchange, now.epochs, feed_end_index(parts->feed));
    return error ? error : training_parts_open_feed(parts);
}

static enum error next_batch(struct training *training, const struct feed_batch **ret_batch)
{
    struct training_parts *parts = &training->parts;
    int64_t within_ms = parts->exchange ? LOOK_MS : -1;
    report_wait_begin(training->report);
    enum error error = feed_next_within(parts->feed, parts->engine.queue, within_ms, ret_batch);
    report_wait_end(training->report);
    return error;
}

/* Trains on one batch of the feed. A worker may return without one. */
static enum error train_batch(struct training *training)
{
    struct training_parts *parts = &training->parts;
    const struct feed_batch *batch = NULL;
    struct model_score score;
    int64_t before = training_step(training);
    enum error error = next_batch(training, &batch);
    if (error == ERROR_END && parts->exchange)
        return end_stream(training);
    if (parts->exchange && feed_is_not_yet(error))
        return exchange_look(parts->exchange);
    if (error)
        return error;
    int64_t rows = (int64_t)batch->rows, index = batch->index; /* `batch` ends with feed_put() */
    struct model_batch model_batch = {.rows = 0};
    if (parts->exchange && !exchange_take(parts->exchange, index)) /* no longer this worker's */
        return feed_put(parts->feed, parts->engine.queue, batch);
    if (rows > 0) /* with --bad-rows skip a batch may have none left */
        error = find_gradient(training, batch, &model_batch);
    if (!error && rows > 0)
        error = training_read_score(training, index, &score);
    if (!error)
        error = learn(training, index, &model_batch);
    if (!error)
        error = feed_put(parts->feed, parts->engine.queue, batch);
    if (error || rows == 0)
        return error;
    show_step(training, before, rows, &score);
    return training_test_in_time(training, before);
}

static void show_parameters_in_time(struct training *training)
{
    if (!shows_parameters(training) || training->options->save_ms == 0 ||
        clock_now_ns() < training->next_save_ns)
        return;
    training->next_save_ns = clock_deadline_ns(training->options->save_ms);
    summary_parameters(training->summary, training->parts.engine.kernel, training->parts.model);
}

/* Trains on a worker's batches until server 0 says that there are no more. */
static enum error work(struct training *training)
{
    enum error error = OK;
    while (!error) {
        if (stop_requested())
            return ERROR_CANCELLED;
        error = exchange_refill(training->parts.exchange, training->parts.feed);
        if (error == ERROR_END) {
            /* An earlier test of this step may have used values that lacked another worker's last
             * gradient; only the current values are final. */
            training->tested_step = -1;
            return OK;
        }
        if (!error)
            error = train_batch(training);
        if (!error)
            error = order_watch_heed(&training->watch);
        if (!error)
            show_parameters_in_time(training);
    }
    return error;
}

static enum error loop(struct training *training)
{
    enum error error = OK;
    while (!error && training_step(training) < training->options->train_steps &&
           !training_is_stale(training)) {
        if (stop_requested())
            return ERROR_CANCELLED;
        error = train_batch(training);
        if (!error)
            error = order_watch_heed(&training->watch);
        if (!error)
            error = training_save_in_time(training);
    }
    return error;
}

static void say_next(const struct training_options *options)
{
    const char *store = options->test_store_uri ? options->test_store_uri : "TEST-STORE";
    struct buffer command = BUFFER_INIT(COMMAND_LIMIT_BYTES);
    buffer_add_text(&command, "tombola-trainer evaluate --store ");
    buffer_add_shell(&command, store);
    buffer_add_text(&command, " --logdir ");
    if (!buffer_add_shell(&command, options->logdir))
        log_info("next: %s, or predict", command.data);
    buffer_release(&command);
}

static enum error finish(struct training *training)
{
    struct training_parts *parts = &training->parts;
    enum error error = OK;
    report_end(training->report);
    if (parts->test_set) {
        error = training_test(training);
        if (!error)
            error = best_model_save(training->best);
        if (error)
            return error;
        training_show_test(training);
    }
    training_say_best(training);
    struct feed_stats stats;
    feed_get_stats(parts->feed, &stats);
    report_bad_rows(stats.bad_rows, training->options->bad_rows);
    training_warn_of_no_progress(training);
    report_done(training->report, parts->test_set != NULL, training_accuracy(&training->score),
                parts->test_set ? model_score_loss(parts->model, &training->score) : 0);
    say_next(training->options);
    return OK;
}

static enum error work_to_the_end(struct training *training)
{
    enum error error = work(training);
    struct error_report report;
    error_report_take(error, &report);
    training_log_last_loss(training);
    if (shows_parameters(training))
        summary_parameters(training->summary, training->parts.engine.kernel, training->parts.model);
    int64_t step = training_step(training), steps = training->options->train_steps;
    if (!error && step < steps)
        log_info("the training ended after %" PRId64 " of %" PRId64 " %s: its stream did, or an "
                 "evaluator stopped it",
                 step, steps, text_plural(steps, "step", "steps"));
    if (!error)
        return finish(training);
    if (error != ERROR_CANCELLED)
        return error_restore(&report);
    return error_set(ERROR_CANCELLED, "stopped by %s at step %" PRId64 "; the others go on",
                     stop_signal_name(), training_step(training));
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
    report_begin(training->report, training_step(training));
    if (parts->exchange)
        return work_to_the_end(training);
    error = loop(training);
    parts->facts.position.stopped =
        !error && training_step(training) < training->options->train_steps;
    parts->facts.position.ended = parts->facts.position.stopped || error == ERROR_END;
    if (error == ERROR_END) {
        log_info("the stream ended after %" PRId64 " of %" PRId64 " %s", training_step(training),
                 training->options->train_steps,
                 text_plural(training->options->train_steps, "step", "steps"));
        error = OK;
    }
    error = training_save_at_end(training, error);
    if (error == ERROR_CANCELLED)
        return training_say_stopped(training);
    if (error == ERROR_CONFLICT)
        return training_say_conflict(training);
    return error ? error : finish(training);
}

static enum error open_progress(struct training *training)
{
    const struct classes *classes = training->parts.facts.classes;
    return baseline_init(&training->progress.baseline, classes ? classes->count : 0);
}

/* The logdir already has the last step: checks the options and whatever they name. */
static enum error say_done(struct training *training)
{
    const struct checkpoint *checkpoint = training->parts.checkpoint;
    enum error error = training_parts_check(&training->parts);
    if (!error)
        log_info("%s has step %" PRId64 " of %" PRId64 ": nothing is left to train",
                 checkpoint_path(checkpoint), checkpoint_step(checkpoint),
                 training->options->train_steps);
    return error ? error : training_keep_last(training);
}

/* The report, and the status that a probe asks for, come before whatever may be waited for: a
 * sampler, a logdir that another trainer holds, a parameter server. */
static enum error open_report(struct training *training)
{
    const struct training_options *options = training->options;
    struct report_options report = {.worker = options->cluster->index,
                                    .print_every = options->print_every,
                                    .last_step = options->train_steps,
                                    .squared = options->model.shape.kind == MODEL_LINEAR,
                                    .is_chief = options->cluster->is_chief,
                                    .check = order_watch_look,
                                    .context = &training->watch};
    enum error error = report_open(&report, &training->report);
    if (!error)
        error = training_status_open(options, training->report, &training->status);
    return error;
}

static enum error run(struct training *training)
{
    const struct training_options *options = training->options;
    report_initializing(training->report);
    enum error error = options->cluster->is_alone
                           ? saver_open(training->parts.logdir, &training->saver)
                           : training_parts_join(&training->parts, options);
    if (!error)
        error = training_parts_open(&training->parts);
    if (!error)
        error = open_progress(training);
    if (!error)
        error = training_open_best(training);
    if (!error)
        error = train(training);
    if (error && error != ERROR_END && error != ERROR_CANCELLED && training->parts.exchange)
        exchange_tell_why(training->parts.exchange, error);
    if (error != ERROR_END || options->cluster->is_alone)
        return error;
    log_info("%s", error_message()); /* a worker that started after the end */
    return OK;
}

/* Without a ps task the chief runs the server, which ends with the training, or with a chief that
 * fails. After a signal the server knows whether the training is over, and what is saved. */
static enum error end_server(struct parameter_server *server, const struct error_report *report)
{
    bool stopped = server && report->code == ERROR_CANCELLED;
    enum error of_server = parameter_server_join(server, report->code != OK);
    return report->code && !stopped ? error_restore(report) : of_server;
}

enum error training_run(const struct training_options *options)
{
    const struct cluster *cluster = options->cluster;
    struct training training = {.options = options, .tested_step = -1};
    struct parameter_server *server = NULL;
    bool done = false;
    enum error error = OK;
    if (options->status_host && (options->guard.token_file || options->guard.tls_cert))
        housekeeper_block_signals();
    if (cluster->role == CLUSTER_PS)
        return parameter_server_run(options);
    if (cluster->role == CLUSTER_EVALUATOR)
        return evaluator_run(options);
    if (cluster_runs_server(cluster))
        error = parameter_server_start(options, &server);
    if (!error)
        error = open_report(&training);
    if (!error && cluster->is_alone)
        error = training_parts_take_logdir(&training.parts, options, &done);
    if (!error)
        error = done ? say_done(&training) : run(&training);
    struct error_report report; /* closing may fail, too: output that nobody reads */
    error_report_take(error, &report);
    training_status_close(training.status);
    summary_close(training.summary);
    report_close(training.report);
    baseline_release(&training.progress.baseline);
    saver_close(training.saver);
    best_model_close(training.best);
    training_parts_close(&training.parts);
    return end_server(server, &report);
}
