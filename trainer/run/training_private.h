/* SPDX-License-Identifier: MIT */
/* A training's state, and the functions that its files share. One thread, except for the watch. */
#ifndef TRAINER_RUN_TRAINING_PRIVATE_H
#define TRAINER_RUN_TRAINING_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/checkpoint/saver.h"
#include "trainer/run/baseline.h"
#include "trainer/run/best_model.h"
#include "trainer/run/order_watch.h"
#include "trainer/run/report.h"
#include "trainer/run/summary.h"
#include "trainer/run/training.h"
#include "trainer/run/training_parts.h"
#include "trainer/run/training_status.h"

/* A requested loss: on a GPU it is read when the device is certainly past it, so that the host
 * never waits for work that it has only just enqueued. */
struct asked_loss {
    int64_t step, index; /* the step made by its batch, and that batch */
    int64_t later;       /* batches of this process since then */
    bool is_pending;
};

/* Compares the losses with those of a constant answer. */
struct progress {
    struct baseline baseline;
    double sum;    /* of the losses per row in the current window */
    int64_t count; /* of them */
    int64_t windows;
    double window; /* the mean of the latest full window */
};

struct training {
    struct training_parts parts;
    struct order_watch watch;
    const struct training_options *options;
    struct report *report;
    struct training_status *status; /* NULL: no status is served */
    struct summary *summary;        /* NULL: before the first batch, or without summaries */
    int64_t next_save_ns;           /* the chief of a cluster, which saves nothing: histograms */
    int64_t tested_step;            /* of `score`; -1: none */
    struct model_score score;
    struct saver *saver;
    struct best_model *best; /* NULL: no tests, or in a cluster */
    bool started;            /* the first batch has arrived */
    bool unsavable;          /* diverged: the saved state is better */
    bool refused;            /* the last loss belongs to a step that was not made */
    struct asked_loss asked;
    struct progress progress;
    int idle_losses; /* consecutive losses without a gradient */
    bool idle_warned;
};

static inline int64_t training_step(const struct training *training)
{
    return model_get_step(training->parts.model);
}

/* ---- training_losses.c -------------------------------------------------- */

/* Requests the score of batch `index`, which makes the next step, and reads one requested long
 * enough ago; no rows: there was none. ERROR_INPUT: the loss is not finite. */
enum error training_read_score(struct training *training, int64_t index,
                               struct model_score *ret_score) MUST_CHECK;
void training_follow_loss(struct progress *progress, double loss);
/* At the end, if there was time to learn. */
void training_warn_of_no_progress(const struct training *training);

/* ---- training_save.c ---------------------------------------------------- */

/* Saves the initial state, once a batch has passed every check: a start that fails leaves nothing
 * that a later one would have to agree with. */
enum error training_save_first(struct training *training) MUST_CHECK;
/* Starts a save when it is due, and completes one that is done. */
enum error training_save_in_time(struct training *training) MUST_CHECK;
/* Waits for a save in progress; a failed one is retried later. */
enum error training_finish_save(struct training *training) MUST_CHECK;
void training_log_last_loss(const struct training *training);
/* Common to all ends: logs the last loss and saves the state reached, whatever the reason. Returns
 * the reason; a save that fails after another failure is logged. */
enum error training_save_at_end(struct training *training, enum error reason) MUST_CHECK;
/* The final messages, by reason: the sampler has another order now or is paused, or a signal
 * arrived. Both return that reason. */
enum error training_say_conflict(const struct training *training) MUST_CHECK;
enum error training_say_stopped(const struct training *training) MUST_CHECK;

/* ---- training_tests.c --------------------------------------------------- */

double training_accuracy(const struct model_score *score);
double training_loss_a_row(const struct model_score *score);
/* Opens the logdir's best model, if there are tests. */
enum error training_open_best(struct training *training) MUST_CHECK;
/* Where nothing is left to train: a run that was ended during its only test, which follows the last
 * save, left no best model; its last step is tested and kept as that. What fails is a warning. */
enum error training_keep_last(const struct training *training) MUST_CHECK;
/* Scores the test set at the current step, once. */
enum error training_test(struct training *training) MUST_CHECK;
/* The same if a test is due. `before`: the global step before the latest batch; other workers may
 * have made steps meanwhile. */
enum error training_test_in_time(struct training *training, int64_t before) MUST_CHECK;
void training_show_test(const struct training *training);
/* --early-stopping: were there enough tests since the best one, counting across interruptions? */
bool training_is_stale(const struct training *training);
void training_say_best(const struct training *training);

#endif
