/* SPDX-License-Identifier: MIT */
/* What the tests of trainer/checkpoint share: a model's state of now, written and waited for. */
#ifndef TESTS_UNIT_CHECKPOINT_UNIT_H
#define TESTS_UNIT_CHECKPOINT_UNIT_H

#include "trainer/checkpoint/logdir.h"

static inline enum error write_checkpoint(const char *path, struct model *model,
                                          const struct checkpoint_facts *facts)
{
    struct checkpoint_snapshot *snapshot = NULL;
    enum error error = checkpoint_snapshot_new(model, facts, &snapshot);
    if (!error)
        error = checkpoint_snapshot_write(snapshot, path);
    checkpoint_snapshot_free(snapshot);
    return error;
}

static inline enum error save_checkpoint(struct logdir *logdir, struct model *model,
                                         const struct checkpoint_facts *facts)
{
    struct checkpoint_snapshot *snapshot = NULL;
    enum error error = checkpoint_snapshot_new(model, facts, &snapshot);
    if (!error)
        error = logdir_save(logdir, snapshot);
    checkpoint_snapshot_free(snapshot);
    return error;
}

#endif
