/* SPDX-License-Identifier: MIT */
/* What the tests of checkpoints share: facts, and a model's state of now, written and waited for. */
#ifndef TESTS_UNIT_CHECKPOINT_UNIT_H
#define TESTS_UNIT_CHECKPOINT_UNIT_H

#include "tests/unit/unit.h"
#include "trainer/checkpoint/logdir.h"

/* A regression by two features, trained on a stream of one unit. */
static inline struct checkpoint_facts small_facts(void)
{
    struct checkpoint_facts facts = {
        .model = {.shape = {.kind = MODEL_LINEAR, .features = 2, .outputs = 1},
                  .loss = LOSS_SQUARED_MEAN,
                  .batch_rows = 1},
        .feature_scale = 1,
        .position = {.stream = {.name = "default",
                                .digest = "00",
                                .design = "srs",
                                .tail = "keep",
                                .units = 1,
                                .epoch_draws = 1},
                     .batch_rows = 1}};
    assert_ok(optimizer_init(&facts.model.optimizer, "sgd", 0.1));
    return facts;
}

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
