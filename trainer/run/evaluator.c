/* SPDX-License-Identifier: MIT */
#include "trainer/run/evaluator.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/store_uri.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/events/event_writer.h"
#include "trainer/exchange/stop_request.h"
#include "trainer/run/best_checkpoint.h"
#include "trainer/run/evaluation_print.h"

#define LOOK_MS 500   /* between two checks of the logdir */
#define AGAIN_MS 2000 /* between two attempts to read what is away */
#define LATE_MS 5000  /* after --save-secs, until the log says that a checkpoint is late */
#define PATH_LIMIT_BYTES 8192

struct evaluator {
    const struct training_options *options;
    struct engine engine;
    struct event_writer *writer; /* NULL: before the first checkpoint, or no events are wanted */
    struct buffer pointer;       /* the path of the file `checkpoint` */
    struct stat seen;            /* of that file, when it was read last */
    struct stat absent;          /* the same, when the checkpoints that it names were not there */
    bool absent_said;            /* the log has said so */
    int64_t step;                /* of the checkpoint that was scored last; -1: none */
    bool waits;                  /* the log has said so */
    int64_t late_ns;             /* when the next checkpoint is late */
    int64_t away_ns;             /* since when a checkpoint cannot be scored; 0: it can */
    int64_t again_ns;            /* when to try again */
    bool has_servers;            /* else the process that trains alone keeps the best model */
    struct best_checkpoint best; /* used if it has */
    int64_t keep_ns;             /* when to try again to keep it; 0: it has not failed */
    int64_t last_by_ns;          /* until when that is retried at the end; 0: not at the end */
    bool stopped;                /* the log has said so */
};

/* Each save renames a new file over `checkpoint`. */
static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

static bool has_changed(const struct evaluator *evaluator, struct stat *ret_now)
{
    return stat(evaluator->pointer.data, ret_now) == 0 && !is_same(ret_now, &evaluator->seen);
}

/* ---- results ------------------------------------------------------------ */

static enum error open_writer(struct evaluator *evaluator)
{
    struct buffer folder = BUFFER_INIT(PATH_LIMIT_BYTES);
    if (evaluator->writer || evaluator->options->summary_seconds <= 0)
        return OK;
    enum error error = buffer_print(&folder, "%s/eval", evaluator->options->logdir);
    if (!error)
        error = event_writer_open(folder.data, true, &evaluator->writer);
    buffer_release(&folder);
    return error;
}

/* The first step starts a session: TensorBoard then forgets earlier events of that step and later
 * ones. */
static enum error show_events(struct evaluator *evaluator, int64_t step,
                              const struct evaluation *evaluation, bool has_accuracy)
{
    const struct event_scalar scalars[] = {{"test_loss", evaluation->loss},
                                           {"test_accuracy", evaluation->accuracy}};
    bool starts = !evaluator->writer;
    enum error error = open_writer(evaluator);
    if (error || !evaluator->writer)
        return error;
    if (starts)
        event_writer_session(evaluator->writer, step, EVENT_START, NULL);
    event_writer_scalars(evaluator->writer, step, scalars, has_accuracy ? 2 : 1);
    return OK;
}

static enum error show(struct evaluator *evaluator, const struct checkpoint *checkpoint,
                       const struct evaluation *evaluation)
{
    const struct classes *classes = checkpoint_get_facts(checkpoint)->classes;
    int64_t step = checkpoint_step(checkpoint);
    struct buffer text = BUFFER_INIT(EVALUATION_TEXT_LIMIT);
    evaluation_print_json(evaluation, classes, &text);
    if (!text.error) {
        printf("{\"step\":%" PRId64 ",%s", step, text.data + 1); /* without its opening brace */
        fflush(stdout);
    }
    enum error error = text.error;
    buffer_release(&text);
    log_info("step %" PRId64 ": loss %g a row%s", step, evaluation->loss,
             classes ? "" : ", squared");
    return error ? error : show_events(evaluator, step, evaluation, classes != NULL);
}

/* ---- checkpoints -------------------------------------------------------- */

static enum error score(struct evaluator *evaluator, struct trained_model *trained)
{
    const struct trained_model_source source = {.store_uri = evaluator->options->test_store_uri};
    struct evaluation evaluation;
    enum error error = evaluation_run(trained, &source, &evaluation);
    if (!error)
        error = show(evaluator, trained->checkpoint, &evaluation);
    if (!error && evaluator->has_servers)
        best_checkpoint_consider(&evaluator->best, &trained->checkpoint, evaluation.loss);
    evaluation_release(&evaluation);
    return error;
}

/* What was there before may come back, such as a test store on a file server: it is waited for as
 * long as a worker waits for a sampler. */
static enum error put_off(struct evaluator *evaluator, enum error error)
{
    int64_t now_ns = clock_now_ns(), patience_ms = evaluator->options->patience_ms;
    bool is_away = error == ERROR_NOT_FOUND || error == ERROR_IO || error == ERROR_NETWORK;
    if (evaluator->away_ns == 0)
        evaluator->away_ns = now_ns;
    if (!is_away || evaluator->step < 0 || (now_ns - evaluator->away_ns) / 1000000 > patience_ms)
        return error;
    if (evaluator->away_ns == now_ns)
        log_warning("no checkpoint is scored: %s; it is tried again (--patience)", error_message());
    evaluator->again_ns = clock_deadline_ns(AGAIN_MS);
    return OK;
}

/* A disk that refuses it may take it later. */
static void keep_best(struct evaluator *evaluator)
{
    if (clock_now_ns() < evaluator->keep_ns)
        return;
    enum error error = best_checkpoint_keep(&evaluator->best);
    if (error && evaluator->keep_ns == 0)
        log_warning("%s; it is tried again", error_message());
    evaluator->keep_ns = error ? clock_deadline_ns(AGAIN_MS) : 0;
}

/* Scores the best model of an earlier evaluator. */
static enum error open_best(struct evaluator *evaluator)
{
    const struct training_options *options = evaluator->options;
    const struct trained_model_options model = {.logdir = options->logdir,
                                                .best = true,
                                                .borrowed = &evaluator->engine,
                                                .bad_rows = options->bad_rows};
    const struct trained_model_source source = {.store_uri = options->test_store_uri};
    struct trained_model trained;
    struct evaluation evaluation = {.loss = INFINITY};
    enum error error = trained_model_open(&model, &trained);
    best_checkpoint_release(&evaluator->best);
    best_checkpoint_init(&evaluator->best, options->logdir, INFINITY, -1);
    if (error)
        return error == ERROR_NOT_FOUND ? OK : error;
    error = evaluation_run(&trained, &source, &evaluation);
    if (!error)
        best_checkpoint_init(&evaluator->best, options->logdir, evaluation.loss,
                             checkpoint_step(trained.checkpoint));
    evaluation_release(&evaluation);
    trained_model_close(&trained);
    return error;
}

/* Its newest checkpoint is older than the one that was scored last: the logdir was emptied for
 * another training, or its user went back. What was counted, and the files that are open, belong to
 * what was there before. */
static enum error begin_again(struct evaluator *evaluator)
{
    enum error error = evaluator->has_servers ? open_best(evaluator) : OK;
    if (error)
        return error;
    log_info("%s begins again: so do the best model and --early-stopping",
             evaluator->options->logdir);
    event_writer_close(evaluator->writer);
    evaluator->writer = NULL;
    evaluator->step = -1;
    evaluator->stopped = false;
    return OK;
}

/* A checkpoint that is deleted before it is read has been replaced by a newer one, which the next
 * look() finds; if that finds the same file, somebody has deleted the checkpoints. */
static void say_absent(struct evaluator *evaluator, const struct stat *now)
{
    if (is_same(now, &evaluator->absent) && !evaluator->absent_said) {
        log_warning("no checkpoint is scored until there is one: %s", error_message());
        evaluator->absent_said = true;
    }
    evaluator->absent = *now;
}

/* `now`: the status of the file `checkpoint`. */
static enum error score_newest(struct evaluator *evaluator, const struct stat *now)
{
    const struct training_options *options = evaluator->options;
    const struct trained_model_options model = {
        .logdir = options->logdir, .borrowed = &evaluator->engine, .bad_rows = options->bad_rows};
    struct trained_model trained;
    enum error error = trained_model_open(&model, &trained);
    if (error == ERROR_NOT_FOUND)
        say_absent(evaluator, now);
    if (error)
        return error == ERROR_NOT_FOUND ? OK : put_off(evaluator, error);
    evaluator->absent_said = false;
    int64_t step = checkpoint_step(trained.checkpoint);
    if (step < evaluator->step)
        error = begin_again(evaluator);
    if (!error && step != evaluator->step)
        error = score(evaluator, &trained);
    trained_model_close(&trained);
    if (error)
        return put_off(evaluator, error);
    evaluator->step = step;
    evaluator->seen = *now;
    evaluator->away_ns = evaluator->again_ns = 0;
    evaluator->late_ns = clock_deadline_ns(options->save_ms + LATE_MS);
    return OK;
}

/* --early-stopping. A cluster that is returning to its last cut cannot be stopped yet: OK, and the
 * next call tries again. */
static enum error stop_early(struct evaluator *evaluator)
{
    const struct training_options *options = evaluator->options;
    if (!evaluator->has_servers || options->early_stopping == 0 ||
        evaluator->best.worse < options->early_stopping)
        return OK;
    enum error error = stop_request_send(options->cluster);
    if (error == ERROR_NETWORK || error == ERROR_TIMEOUT) {
        log_debug("%s", error_message());
        return OK;
    }
    if (!error && !evaluator->stopped)
        log_info("stopped early: no lower test loss in %" PRId64 " %s since step %" PRId64,
                 options->early_stopping,
                 text_plural(options->early_stopping, "checkpoint", "checkpoints"),
                 evaluator->best.step);
    evaluator->stopped = true;
    return error;
}

/* The training may have ended after fewer steps than this evaluator's --train-steps, or may be
 * continued at any moment: only the user knows which. */
static void say_late(struct evaluator *evaluator)
{
    const struct training_options *options = evaluator->options;
    bool has_only_begun = options->save_ms == 0 && evaluator->step == 0; /* the last one is next */
    if (evaluator->step < 0 || has_only_begun || clock_now_ns() < evaluator->late_ns)
        return;
    evaluator->late_ns = INT64_MAX;
    log_info("still waiting for step %" PRId64 " (--train-steps): no checkpoint came after step "
             "%" PRId64 "; if %s was trained with a lower --train-steps, end this evaluator",
             options->train_steps, evaluator->step, options->logdir);
}

static enum error look(struct evaluator *evaluator)
{
    struct stat now;
    if (has_changed(evaluator, &now))
        return clock_now_ns() < evaluator->again_ns ? OK : score_newest(evaluator, &now);
    if (evaluator->step < 0 && !evaluator->waits)
        log_info("waiting for a checkpoint in %s", evaluator->options->logdir);
    evaluator->waits = true;
    say_late(evaluator);
    return OK;
}

/* Is the training over, its last checkpoint scored, and the best one kept, or for too long not? */
static bool is_over(struct evaluator *evaluator, uint64_t *seen)
{
    const struct training_options *options = evaluator->options;
    struct stat now;
    bool ends = logdir_is_trained(options->logdir, options->train_steps, LOGDIR_ENDED, seen) &&
                !has_changed(evaluator, &now);
    if (!ends || evaluator->last_by_ns == 0)
        evaluator->last_by_ns = ends ? clock_deadline_ns(SAVER_LAST_MS) : 0;
    return ends && (!evaluator->best.unkept || clock_now_ns() > evaluator->last_by_ns);
}

static enum error watch(struct evaluator *evaluator)
{
    uint64_t seen = 0;
    for (;;) {
        enum error error = look(evaluator);
        if (error)
            return error;
        keep_best(evaluator);
        if (is_over(evaluator, &seen))
            return OK;
        error = stop_early(evaluator);
        if (error)
            return error;
        if (stop_wait(clock_deadline_ns(LOOK_MS)))
            return error_set(ERROR_CANCELLED, "stopped by %s; the training goes on",
                             stop_signal_name());
    }
}

/* `error`: how it ended. The best model must be there if that is well. */
static enum error keep_last(struct evaluator *evaluator, enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    enum error missing = best_checkpoint_keep(&evaluator->best);
    if (!error)
        return missing;
    if (missing)
        log_error("%s", error_message());
    return error_restore(&report);
}

enum error evaluator_run(const struct training_options *options)
{
    const struct cluster *cluster = options->cluster;
    struct evaluator evaluator = {.options = options,
                                  .pointer = BUFFER_INIT(PATH_LIMIT_BYTES),
                                  .step = -1,
                                  .has_servers = cluster_count(cluster, CLUSTER_PS) > 0 ||
                                                 cluster_trainer_count(cluster) > 1,
                                  .best.step = -1};
    if (!options->test_store_uri)
        return error_set(ERROR_USAGE, "an evaluator scores checkpoints on --test-store URI");
    enum error error = store_check_uri(options->test_store_uri); /* not at the first checkpoint */
    if (error)
        return error;
    struct hang hang; /* may end the process: files are renamed only when complete */
    hang_begin(&hang, HANG_MS, "while a file of the logdir %s does not answer", options->logdir);
    error = buffer_print(&evaluator.pointer, "%s/checkpoint", options->logdir);
    if (!error)
        error = engine_open(&options->engine, &evaluator.engine);
    if (!error && evaluator.has_servers)
        error = open_best(&evaluator);
    if (!error)
        error = keep_last(&evaluator, watch(&evaluator));
    if (!error && evaluator.best.step >= 0)
        best_checkpoint_say(evaluator.best.step, evaluator.best.loss);
    if (evaluator.writer)
        event_writer_session(evaluator.writer, evaluator.step, EVENT_STOP, NULL);
    event_writer_close(evaluator.writer);
    best_checkpoint_release(&evaluator.best);
    engine_close(&evaluator.engine);
    hang_end(&hang);
    buffer_release(&evaluator.pointer);
    return error;
}
