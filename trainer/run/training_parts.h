/* SPDX-License-Identifier: MIT */
/*
 * The parts of a training, opened in the order in which they depend on each other, each checked
 * against the checkpoint that is to be continued.
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
    struct exchange *exchange;     /* a worker's with the servers; NULL: alone */
    struct checkpoint *checkpoint; /* continued from; NULL: a new training */
    struct checkpoint *initial;    /* of --init-from; NULL: none, or a training that goes on */
    struct store *store;
    struct checkpoint_facts facts; /* owns the classes; `done` grows with training */
    struct targets *targets;
    struct engine engine;
    struct model *model;
    struct test_set *test_set; /* NULL: none */
    struct feed *feed;
    struct feature_input *input; /* what comes from the feed, as the model takes it */
    int32_t *classes;            /* [B] */
    float *numbers;              /* [B] */
};

/* Takes the logdir and its checkpoint, if there is one. *ret_done: it has the last step already,
 * and nothing else was opened. */
enum error training_parts_take_logdir(struct training_parts *parts,
                                      const struct training_options *options,
                                      bool *ret_done) MUST_CHECK;
/* For a training that is done: would the options go with the checkpoint, and are the device and the
 * stores there? Sends nothing over a network. */
enum error training_parts_check(struct training_parts *parts) MUST_CHECK;
/* A worker's: asks the parameter servers what is trained. */
enum error training_parts_join(struct training_parts *parts,
                               const struct training_options *options) MUST_CHECK;
/* Opens everything else; the model has the checkpoint's state, the feed begins with the next batch.
 * */
enum error training_parts_open(struct training_parts *parts) MUST_CHECK;
/* The feed, from where training is; closes the one before. */
enum error training_parts_open_feed(struct training_parts *parts) MUST_CHECK;
/* Legal at any point, and on zeros. */
void training_parts_close(struct training_parts *parts);

#endif
