/* SPDX-License-Identifier: MIT */
/* Losses of batches: read with a delay on a GPU, refused if not finite, and compared with the loss
 * of a constant answer. */
#include "trainer/run/training_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/log.h"

#define LOSS_EVERY_CUDA 20 /* one loss is copied every so many steps; the CPU has each at hand */
#define IDLE_LOSSES 10     /* in a row, before the warning that nothing is learned */
#define WINDOW_LOSSES 100  /* whose mean is compared with the baseline */
#define LEARNT 0.98        /* a loss below this times the baseline shows that the model learnt */

/* Saturated outputs have no gradient: further steps change nothing, although the loss looks normal.
 * A loss of 0 has no gradient either, and is right. */
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

/* The loss is read every so many steps. */
static int64_t loss_every(const struct training *training)
{
    return is_on_gpu(training) ? LOSS_EVERY_CUDA : 1;
}

static const char *normalize_advice(const struct training *training)
{
    return training->parts.facts.norm.features > 0 ? "" : "--normalize (in another --logdir) or ";
}

/* The message's URL shows the batch of this loss; where losses are read only every so often, an
 * earlier batch may have been the first to diverge. */
static enum error refuse_loss(struct training *training, double loss)
{
    const struct training_options *options = training->options;
    const struct logdir *logdir = training->parts.logdir;
    int64_t index = training->asked.index;
    char newest[ERROR_MESSAGE_BYTES] = "";
    enum error error = logdir ? training_finish_save(training) : OK;
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

enum error training_read_score(struct training *training, int64_t index,
                               struct model_score *ret_score)
{
    struct model *model = training->parts.model;
    struct asked_loss *asked = &training->asked;
    int64_t step = training_step(training) + 1;
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

void training_follow_loss(struct progress *progress, double loss)
{
    progress->sum += loss;
    if (++progress->count < WINDOW_LOSSES)
        return;
    progress->window = progress->sum / WINDOW_LOSSES;
    progress->windows++;
    progress->sum = 0;
    progress->count = 0;
}

void training_warn_of_no_progress(const struct training *training)
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
