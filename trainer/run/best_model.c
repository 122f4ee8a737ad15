/* SPDX-License-Identifier: MIT */
#include "trainer/run/best_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/log.h"

struct best_model {
    const struct logdir *logdir;
    const struct checkpoint_facts *facts;
    double loss; /* INFINITY: there is none yet */
    int64_t step;
    struct checkpoint_snapshot *found; /* not on disk yet; NULL: none */
};

/* ---- the best model so far ------------------------------------------------- */

static enum error score_checkpoint(const struct checkpoint *checkpoint, struct test_set *tests,
                                   struct model *model, struct model_score *ret_score)
{
    int64_t step = model_get_step(model);
    float *state = array_new(model_state_count(model), sizeof(*state), "the state of a model");
    if (!state)
        return ERROR_MEMORY;
    enum error error = model_read(model, state);
    if (!error)
        error = checkpoint_restore(checkpoint, model);
    if (!error)
        error = test_set_score(tests, model, ret_score);
    if (!error)
        error = model_write(model, state, step);
    free(state);
    return error;
}

static enum error resume(struct best_model *best, struct test_set *tests, struct model *model)
{
    struct checkpoint *checkpoint = NULL;
    struct model_score score;
    enum error error = logdir_best(best->logdir, &checkpoint);
    if (error || !checkpoint)
        return error;
    error = score_checkpoint(checkpoint, tests, model, &score);
    if (!error) {
        best->loss = score.loss_sum / (double)score.rows;
        best->step = checkpoint_step(checkpoint);
        log_info("the best model so far is from step %" PRId64 ", with a test loss of %g a row",
                 best->step, best->loss);
    }
    checkpoint_close(checkpoint);
    return error;
}

/* ---- life cycle --------------------------------------------------------- */

enum error best_model_open(const struct logdir *logdir, const struct checkpoint_facts *facts,
                           struct test_set *tests, struct model *model,
                           struct best_model **ret_best)
{
    struct best_model *best = array_new(1, sizeof(*best), "the best model");
    if (!best)
        return ERROR_MEMORY;
    *best = (struct best_model){.logdir = logdir, .facts = facts, .loss = INFINITY, .step = -1};
    enum error error = resume(best, tests, model);
    if (error)
        free(best);
    else
        *ret_best = best;
    return error;
}

void best_model_close(struct best_model *best)
{
    if (best)
        checkpoint_snapshot_free(best->found);
    free(best);
}

/* ---- states ------------------------------------------------------------- */

enum error best_model_consider(struct best_model *best, struct model *model, double loss)
{
    struct checkpoint_snapshot *snapshot = NULL;
    if (!best || !(loss < best->loss))
        return OK;
    enum error error = checkpoint_snapshot_new(model, best->facts, &snapshot);
    if (error)
        return error;
    checkpoint_snapshot_free(best->found);
    best->found = snapshot;
    best->loss = loss;
    best->step = model_get_step(model);
    return OK;
}

struct checkpoint_snapshot *best_model_take(struct best_model *best)
{
    struct checkpoint_snapshot *found = best ? best->found : NULL;
    if (best)
        best->found = NULL;
    return found;
}

void best_model_put(struct best_model *best, struct checkpoint_snapshot *snapshot)
{
    if (!best || best->found) /* there is a better one */
        checkpoint_snapshot_free(snapshot);
    else
        best->found = snapshot;
}

enum error best_model_save(struct best_model *best)
{
    if (!best || !best->found)
        return OK;
    enum error error = logdir_save_best(best->logdir, best->found);
    if (!error)
        checkpoint_snapshot_free(best_model_take(best));
    return error;
}

int64_t best_model_step(const struct best_model *best)
{
    return best ? best->step : -1;
}

double best_model_loss(const struct best_model *best)
{
    return best ? best->loss : INFINITY;
}
