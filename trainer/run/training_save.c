/* SPDX-License-Identifier: MIT */
/* Saves, and messages about them when a training ends. */
#include "trainer/run/training_private.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define LAST_AGAIN_MS 2000 /* between two attempts to save the last state */

/* Waits for a save in progress and reports how it ended; OK if there is none. */
static enum error end_save(struct training *training)
{
    int64_t step;
    enum error error = saver_finish(training->saver, &step);
    best_model_put(training->best, saver_take_best(training->saver));
    if (error)
        return logdir_say_not_saved(training->parts.logdir, step, error);
    if (step < 0)
        return OK;
    log_info("saved %s", logdir_newest_path(training->parts.logdir));
    summary_checkpoint(training->summary, step, logdir_newest_path(training->parts.logdir));
    return OK;
}

/* A failed save is retried, but not if the state is not finite (it will not become finite) or if
 * another trainer has taken over the logdir. */
static enum error put_off_save(struct training *training, enum error error)
{
    bool is_final = error == ERROR_INPUT || error == ERROR_CONFLICT;
    training->unsavable |= is_final;
    if (!error || is_final)
        return error;
    training->next_save_ns = saver_retry_ns(training->options->save_ms);
    log_warning("%s; it is tried again", error_message());
    return OK;
}

enum error training_finish_save(struct training *training)
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
    return error ? logdir_say_not_saved(parts->logdir, training_step(training), error) : OK;
}

/* Saves the current state, and waits until it is on disk. */
static enum error save(struct training *training)
{
    enum error error = training_finish_save(training);
    if (!error)
        error = begin_save(training);
    if (error)
        return error;
    error = end_save(training);
    training->unsavable |= error != OK;
    return error;
}

/* A disk that refused it once, as with EIO, may take it a moment later. Errors that stay are those
 * of put_off_save(). */
static enum error save_last(struct training *training)
{
    enum error error = save(training);
    int64_t deadline_ns = clock_deadline_ns(SAVER_LAST_MS);
    while (error && error != ERROR_INPUT && error != ERROR_CONFLICT &&
           clock_now_ns() < deadline_ns) {
        log_warning("%s; it is tried again", error_message());
        clock_sleep_ms(LAST_AGAIN_MS);
        error = save(training);
    }
    return error;
}

enum error training_save_in_time(struct training *training)
{
    if (saver_is_busy(training->saver))
        return saver_is_done(training->saver) ? training_finish_save(training) : OK;
    if (training->options->save_ms == 0 || clock_now_ns() < training->next_save_ns)
        return OK;
    return put_off_save(training, begin_save(training));
}

enum error training_save_first(struct training *training)
{
    if (logdir_newest_step(training->parts.logdir) >= 0)
        return OK;
    report_pause_begin(training->report);
    enum error error = save(training);
    report_pause_end(training->report);
    return error;
}

/* An evaluator waits for a checkpoint that records the end; one that was saved at this step before
 * the end was known does not. */
static bool is_end_to_be_told(const struct training *training)
{
    const struct checkpoint *begin = training->parts.checkpoint;
    return training->parts.facts.position.ended &&
           !(begin && checkpoint_step(begin) == training_step(training) &&
             checkpoint_get_facts(begin)->position.ended);
}

/* Is there something to save? Before the first batch only the end of an empty stream counts. */
static bool may_save(const struct training *training, enum error reason)
{
    int64_t newest = logdir_newest_step(training->parts.logdir);
    return !training->unsavable && (newest >= 0 || !reason) &&
           (training_step(training) != newest || is_end_to_be_told(training));
}

void training_log_last_loss(const struct training *training)
{
    double loss;
    if (!model_loss(training->parts.model, &loss))
        log_info("step %" PRId64 ": loss %g", training_step(training) + training->refused, loss);
}

enum error training_save_at_end(struct training *training, enum error reason)
{
    struct error_report report;
    error_report_take(reason, &report);
    training_log_last_loss(training);
    enum error error = training_finish_save(training);
    if (!error && !may_save(training, reason)) {
        if (best_model_save(training->best))
            log_error("the best model was not saved: %s", error_message());
        return error_restore(&report);
    }
    report_pause_begin(training->report);
    if (!error)
        error = save_last(training);
    /* All rows trained on are of the old order (the feed compares the order on every new
     * connection), so they are saved first; but no more of that order will come. */
    if (!error)
        error = order_watch_ask(&training->watch);
    report_pause_end(training->report);
    if (!error)
        return error_restore(&report);
    if (!reason || reason == ERROR_CANCELLED || error == reason)
        return error;
    log_error("%s", error_message());
    return error_restore(&report);
}

enum error training_say_conflict(const struct training *training)
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

enum error training_say_stopped(const struct training *training)
{
    if (logdir_newest_step(training->parts.logdir) < 0)
        return error_set(ERROR_CANCELLED, "stopped by %s before the first step; nothing was saved",
                         stop_signal_name());
    return error_set(ERROR_CANCELLED,
                     "stopped by %s after step %" PRId64 "; start again with the same --logdir to "
                     "go on from %s",
                     stop_signal_name(), training_step(training),
                     logdir_newest_path(training->parts.logdir));
}
