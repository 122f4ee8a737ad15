/* SPDX-License-Identifier: MIT */
/* Tests during a training, the best model by them, and early stopping. */
#include "trainer/run/training_private.h"

#include <inttypes.h>
#include <math.h>

#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "trainer/run/best_checkpoint.h"
#include "trainer/run/evaluation.h"

double training_accuracy(const struct model_score *score)
{
    return score->rows ? (double)score->correct / (double)score->rows : 0;
}

double training_loss_a_row(const struct model_score *score)
{
    return score->rows ? score->loss_sum / (double)score->rows : 0;
}

enum error training_test(struct training *training)
{
    struct training_parts *parts = &training->parts;
    if (training->tested_step == training_step(training))
        return OK;
    enum error error = test_set_score(parts->test_set, parts->model, &training->score);
    if (!error)
        error = best_model_consider(training->best, parts->model,
                                    training_loss_a_row(&training->score));
    if (!error)
        training->tested_step = training_step(training);
    return error;
}

bool training_is_stale(const struct training *training)
{
    const struct training_options *options = training->options;
    int64_t best = options->early_stopping > 0 ? best_model_step(training->best) : -1;
    int64_t every = options->test_every;
    return best >= 0 && training_step(training) / every - best / every >= options->early_stopping;
}

void training_show_test(const struct training *training)
{
    const struct model_score *score = &training->score;
    report_test(training->report, training_accuracy(score),
                model_score_loss(training->parts.model, score));
    summary_test(training->summary, training->tested_step, training_loss_a_row(score),
                 training_accuracy(score));
}

enum error training_test_in_time(struct training *training, int64_t before)
{
    int64_t every = training->options->test_every;
    if (!training->parts.test_set || every == 0 ||
        training_step(training) / every == before / every)
        return OK;
    report_pause_begin(training->report);
    enum error error = training_test(training);
    report_pause_end(training->report);
    if (!error)
        training_show_test(training);
    return error;
}

void training_say_best(const struct training *training)
{
    const struct best_model *best = training->best;
    if (best_model_step(best) < 0)
        return;
    if (training_is_stale(training))
        log_info("stopped early: no lower test loss in %" PRId64 " %s",
                 training->options->early_stopping,
                 text_plural(training->options->early_stopping, "test", "tests"));
    best_checkpoint_say(best_model_step(best), best_model_loss(best));
}

/* A signal may have interrupted the test of the saved step. */
enum error training_open_best(struct training *training)
{
    struct training_parts *parts = &training->parts;
    int64_t step = training_step(training), every = training->options->test_every;
    if (parts->exchange || !parts->test_set)
        return OK;
    enum error error = best_model_open(parts->logdir, &parts->facts, parts->test_set, parts->model,
                                       &training->best);
    return error || step == 0 || every == 0 || step % every > 0 ? error : training_test(training);
}

static enum error keep_last(const struct training *training)
{
    const struct training_options *options = training->options;
    const struct trained_model_options model = {.checkpoint =
                                                    checkpoint_path(training->parts.checkpoint),
                                                .borrowed = &training->parts.engine,
                                                .bad_rows = options->bad_rows};
    const struct trained_model_source source = {.store_uri = options->test_store_uri};
    struct trained_model trained;
    struct evaluation evaluation;
    struct best_checkpoint best;
    enum error error = trained_model_open(&model, &trained);
    if (error)
        return error;
    error = evaluation_run(&trained, &source, &evaluation);
    best_checkpoint_init(&best, options->logdir, INFINITY, -1);
    if (!error)
        best_checkpoint_consider(&best, &trained.checkpoint, evaluation.loss);
    if (!error)
        error = best_checkpoint_keep(&best);
    if (!error && best.step >= 0)
        log_info("step %" PRId64 " had not been tested: its test loss is %g a row, and "
                 "--best of evaluate, predict and export takes it",
                 best.step, best.loss);
    best_checkpoint_release(&best);
    evaluation_release(&evaluation);
    trained_model_close(&trained);
    return error;
}

enum error training_keep_last(const struct training *training)
{
    struct checkpoint *best = NULL;
    if (!training->options->test_store_uri)
        return OK;
    enum error error = logdir_best(training->parts.logdir, &best);
    if (!error && !best)
        error = keep_last(training);
    checkpoint_close(best);
    if (!error || stop_requested())
        return error;
    log_warning("there is no best model: %s", error_message());
    return OK;
}
