/* SPDX-License-Identifier: MIT */
/*
 * The parts of a training, opened in order of dependency, each checked against the checkpoint to be
 * resumed.
 */
#ifndef TRAINER_RUN_TRAINING_PARTS_H
#define TRAINER_RUN_TRAINING_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"
#include "loader/store/store.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/compute/engine.h"
#include "trainer/exchange/exchange.h"
#include "trainer/model/feature_input.h"
#include "trainer/model/model.h"
#include "trainer/model/targets.h"
#include "trainer/run/test_set.h"
#include "trainer/run/training.h"

struct training_parts {
    const struct training_options *options;
    struct logdir *logdir;         /* NULL: a worker's */
    struct exchange *exchange;     /* a worker's, with the servers; NULL: alone */
    struct checkpoint *checkpoint; /* to resume from; NULL: a new training */
    struct checkpoint *initial;    /* of --init-from; NULL: none, or a resumed training */
    struct store *store;
    struct checkpoint_facts facts; /* owns the classes; `done` grows with training */
    struct targets *targets;
    struct engine engine;
    struct model *model;
    struct test_set *test_set; /* NULL: none */
    struct feed *feed;
    struct feature_input *input; /* converts the feed's rows for the model */
    int32_t *classes;            /* [B] */
    float *numbers;              /* [B] */
};

/* Takes the logdir and its checkpoint, if there is one. *ret_done: it has reached the last step,
 * and nothing else was opened. */
enum error training_parts_take_logdir(struct training_parts *parts,
                                      const struct training_options *options,
                                      bool *ret_done) MUST_CHECK;
/* For a finished training: do the options match the checkpoint, and are the device and the stores
 * available? Sends nothing over a network. */
enum error training_parts_check(struct training_parts *parts) MUST_CHECK;
/* For a worker: asks the parameter servers what is trained. */
enum error training_parts_join(struct training_parts *parts,
                               const struct training_options *options) MUST_CHECK;
/* Opens everything else; the model has the checkpoint's state, the feed starts with the next
 * batch. */
enum error training_parts_open(struct training_parts *parts) MUST_CHECK;
/* Opens the feed at the training's position; closes the previous one. */
enum error training_parts_open_feed(struct training_parts *parts) MUST_CHECK;
/* Legal at any point, and for all zeros. */
void training_parts_close(struct training_parts *parts);

#endif
