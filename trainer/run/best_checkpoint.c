/* SPDX-License-Identifier: MIT */
#include "trainer/run/best_checkpoint.h"

#include <inttypes.h>

#include "common/buffer.h"
#include "common/log.h"
#include "trainer/checkpoint/logdir.h"

#define PATH_LIMIT_BYTES 8192

void best_checkpoint_init(struct best_checkpoint *best, const char *logdir, double loss,
                          int64_t step)
{
    *best = (struct best_checkpoint){.logdir = logdir, .loss = loss, .step = step};
}

void best_checkpoint_release(struct best_checkpoint *best)
{
    checkpoint_close(best->unkept);
    best->unkept = NULL;
}

void best_checkpoint_consider(struct best_checkpoint *best, struct checkpoint **checkpoint,
                              double loss)
{
    int64_t step = checkpoint_step(*checkpoint);
    if (!(loss < best->loss)) {
        best->worse += step != best->step; /* a restarted evaluator scores the best one again */
        return;
    }
    best_checkpoint_release(best);
    best->unkept = *checkpoint;
    *checkpoint = NULL;
    best->worse = 0;
    best->loss = loss;
    best->step = step;
}

enum error best_checkpoint_keep(struct best_checkpoint *best)
{
    struct buffer target = BUFFER_INIT(PATH_LIMIT_BYTES);
    if (!best->unkept)
        return OK;
    enum error error = buffer_print(&target, "%s/" LOGDIR_BEST, best->logdir);
    if (!error)
        error = checkpoint_copy(best->unkept, target.data);
    buffer_release(&target);
    if (error)
        return error_prefix(
            error, "step %" PRId64 " has the lowest test loss and was not kept: ", best->step);
    best_checkpoint_release(best);
    return OK;
}

void best_checkpoint_say(int64_t step, double loss)
{
    log_info("the test loss was lowest at step %" PRId64 ", %g a row: --best of evaluate, predict "
             "and export takes that model",
             step, loss);
}
