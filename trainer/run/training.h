/* SPDX-License-Identifier: MIT */
/*
 * A training: one process pulls batches, steps a model and saves it, until the last step, the end
 * of the stream, tests that no longer improve, or a signal.
 *
 * If the logdir holds a checkpoint, training resumes there with exactly the batch that would have
 * come next, so that any number of interruptions leads to the same bits. A checkpoint is saved
 * before the first step (once its batch has passed every check), every save_ms, and whenever
 * training ends, unless the model diverged. A sampler that returns with another order ends it:
 * earlier steps are of the old order, and are saved.
 *
 * In a cluster a worker does the same except saving, which parameter server 0 does, and a ps holds
 * parameters until the training is over (trainer/server); an evaluator scores checkpoints. The
 * chief of a cluster without a ps runs one server on a separate thread.
 *
 * One thread; the feed and the report have their own.
 */
#ifndef TRAINER_RUN_TRAINING_H
#define TRAINER_RUN_TRAINING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/http/guard.h"
#include "loader/feed/feed.h"
#include "trainer/cluster/cluster.h"
#include "trainer/compute/engine.h"
#include "trainer/model/model.h"

struct training_options {
    const char *sampler_url;
    const char *stream; /* of the sampler */
    const char *store_uri;
    const char *test_store_uri; /* NULL: no tests while training */
    const char *logdir;
    const char *init_from; /* safetensors with initial parameters; NULL: random */
    struct engine_options engine;
    struct model_options
        model; /* kind, hidden layers, loss, optimizer; the rest comes from store and sampler */
    bool seed_given;     /* else model.seed is random, or the checkpoint's */
    bool normalize;      /* or if the checkpoint was trained so */
    float feature_scale; /* 0: the checkpoint's; else 1/255 for u8 stores, 1 for f32 */
    int64_t train_steps; /* the global step to end at */
    int64_t batch_rows;
    int64_t test_every;     /* steps; 0: only at the end */
    int64_t early_stopping; /* end after this many tests in a row without a lower loss; 0: never */
    int64_t save_ms;        /* 0: not by time */
    double summary_seconds; /* between two summaries; 0: no event files */
    int64_t print_every;
    int64_t patience_ms; /* give up on a sampler that does not answer for this long */
    int64_t cache_bytes;
    bool keeps_resident; /* keep rows on a GPU, if all of them fit */
    const char *cache;   /* a folder; NULL: none */
    int64_t cache_limit;
    enum bad_rows bad_rows;
    const struct cluster *cluster; /* this process's role; alone: it does everything */
    int64_t staleness;             /* asynchronous: how many steps old values may be; < 0: any */
    size_t aggregate;              /* synchronous training: batches per step; 0: asynchronous */
    bool is_grouped;               /* synchronous: workers' GPUs exchange gradients by NCCL */
    bool tcp_only;                 /* no shared memory with servers of this machine */
    bool round_robin;              /* parameters on servers: whole tensors in turn, not by bytes */
    struct guard_options guard;    /* access control for HTTP; without a grammar */
    const char *status_host;       /* where a worker serves its status; NULL: nowhere */
    uint16_t status_port;
};

/* Runs this process's role until the training ends. ERROR_CANCELLED after a signal, once the
 * checkpoint is saved. */
enum error training_run(const struct training_options *options) MUST_CHECK;

#endif
