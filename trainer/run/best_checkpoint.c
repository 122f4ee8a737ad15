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

/* The file may be gone by now: others were saved while it was scored. */
static enum error keep(const struct best_checkpoint *best, const struct checkpoint *checkpoint)
{
    struct buffer target = BUFFER_INIT(PATH_LIMIT_BYTES);
    enum error error = buffer_print(&target, "%s/" LOGDIR_BEST, best->logdir);
    if (!error)
        error = checkpoint_copy(checkpoint, target.data);
    buffer_release(&target);
    return error;
}

void best_checkpoint_consider(struct best_checkpoint *best, const struct checkpoint *checkpoint,
                              double loss)
{
    int64_t step = checkpoint_step(checkpoint);
    if (!(loss < best->loss)) {
        best->worse += step != best->step; /* a restarted evaluator scores the best one again */
        return;
    }
    best->worse = 0;
    if (keep(best, checkpoint)) {
        log_warning("step %" PRId64 " has the lowest loss so far and was not kept: %s", step,
                    error_message());
        return;
    }
    best->loss = loss;
    best->step = step;
}

void best_checkpoint_say(int64_t step, double loss)
{
    log_info("the test loss was lowest at step %" PRId64 ", %g a row: --best of evaluate, predict "
             "and export takes that model",
             step, loss);
}
