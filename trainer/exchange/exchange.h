/* SPDX-License-Identifier: MIT */
/*
 * An exchange: a worker's side of a training with parameter servers. Server 0 grants batches; for
 * each the worker pushes its gradient to all servers and takes the new values from their answers.
 * Or workers add up their gradients from GPU to GPU, and server 0 says who they are (rank.h).
 *
 * A server that is away is waited for, with a line in the log that names it. What was under way is
 * sent again when it is back; a batch counts once, whatever is repeated. When a server lost its
 * shard all go back to the last cut: what was granted before is over, and the worker goes on with
 * new values and new batches.
 *
 * Threads: one, that of the model.
 */
#ifndef TRAINER_EXCHANGE_EXCHANGE_H
#define TRAINER_EXCHANGE_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/cluster/cluster.h"
#include "trainer/compute/engine.h"
#include "trainer/model/model.h"

struct exchange_options {
    const struct cluster *cluster; /* borrowed; is not alone */
    bool round_robin;
    bool tcp_only;       /* no shared memory with servers of this machine */
    bool is_grouped;     /* synchronous: gradients go from GPU to GPU (rank.h) */
    size_t aggregate;    /* synchronous: batches a step; 0: asynchronous */
    int64_t staleness;   /* asynchronous: how many steps old values may be; < 0: any */
    const char *logdir;  /* looked at while server 0 is away: the training may be over */
    int64_t train_steps; /* where it is */
    int64_t patience_ms; /* for a server that cannot be reached; < 0: for ever */
};

struct exchange;

/* Connects to server 0. *ret_checkpoint: what is trained (the caller closes it), or NULL: nobody
 * said so yet, and this worker is to, by exchange_propose(). ERROR_END: the training is over. */
enum error exchange_open(const struct exchange_options *options, struct exchange **ret_exchange,
                         struct checkpoint **ret_checkpoint) MUST_CHECK;
/* NULL is legal. What the worker holds is free again. */
void exchange_close(struct exchange *exchange);

/* Says what is trained, unless it is known. *ret_checkpoint as of exchange_open(): what holds from
 * now on, which another worker may have said; NULL: it was known. ERROR_CONFLICT when the servers'
 * options differ. */
enum error exchange_propose(struct exchange *exchange, const struct checkpoint_facts *facts,
                            struct checkpoint **ret_checkpoint) MUST_CHECK;
/* Gives `model`, which is on `engine` (both borrowed), its values and step. The stream has so many
 * `batches` (INT64_MAX: no end; -1: only the sampler knows), which a group must know. */
enum error exchange_begin(struct exchange *exchange, const struct engine *engine,
                          struct model *model, int64_t batches) MUST_CHECK;

/* Sees to it that a batch is on its way: passes on what server 0 grants to `feed`, and waits for
 * some when there is none. ERROR_END: the training is over, and the model has its last values. */
enum error exchange_refill(struct exchange *exchange, struct feed *feed) MUST_CHECK;
/* The feed has brought nothing for a while: the others may be through. exchange_refill() says so
 * then; it may be called with batches that are granted and not pushed. */
enum error exchange_look(struct exchange *exchange) MUST_CHECK;
/* The feed brought `batch`: is it this worker's? Else it is put back unused. */
bool exchange_take(struct exchange *exchange, int64_t batch);
/* Pushes the model's gradient of `batch` (`rows` 0: there is none), and takes the new values.
 * *ret_again: they were too old (--staleness), it is to be computed with these. */
enum error exchange_push(struct exchange *exchange, int64_t batch, size_t rows,
                         bool *ret_again) MUST_CHECK;
/* The stream has no batch `end`: what this worker holds is given back, and its feed is to be opened
 * anew. */
enum error exchange_end_stream(struct exchange *exchange, int64_t end) MUST_CHECK;

#endif
