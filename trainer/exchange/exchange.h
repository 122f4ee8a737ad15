/* SPDX-License-Identifier: MIT */
/*
 * An exchange: a worker's side of a training with parameter servers. Server 0 grants batches; the
 * worker pushes each batch's gradient to all servers and receives new values in their answers.
 * Alternatively, workers sum gradients from GPU to GPU, and server 0 decides who takes part
 * (rank.h).
 *
 * While a server is away the exchange waits, and the log names the server. Requests in progress are
 * sent again when it returns; a batch counts once however often it is repeated. If a server has
 * lost its shard, the training returns to the last cut: earlier grants are void, and the worker
 * continues with new values and new batches.
 *
 * Threads: the model's thread only.
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
    enum bad_rows bad_rows;
    bool tcp_only;       /* no shared memory with servers of this machine */
    bool is_grouped;     /* synchronous: gradients go from GPU to GPU (rank.h) */
    size_t aggregate;    /* synchronous: batches a step; 0: asynchronous */
    int64_t staleness;   /* asynchronous: how many steps old values may be; < 0: any */
    const char *logdir;  /* checked while server 0 is away: the training may be over */
    int64_t train_steps; /* the step at which it is */
    bool may_stop;       /* an evaluator may have ended it before */
    int64_t patience_ms; /* how long to retry a server that cannot be reached; < 0: no limit */
};

struct exchange;

/* Connects to server 0. *ret_checkpoint describes the training (the caller closes it); NULL: server
 * 0 does not know it yet, and this worker must call exchange_propose(). ERROR_END: the training is
 * over. */
enum error exchange_open(const struct exchange_options *options, struct exchange **ret_exchange,
                         struct checkpoint **ret_checkpoint) MUST_CHECK;
/* Tells server 0, if it is connected, why this worker ends: by the message of this thread's last
 * error, which stays. */
void exchange_tell_why(struct exchange *exchange, enum error error);
/* NULL is legal. Batches that the worker holds become free. */
void exchange_close(struct exchange *exchange);

/* Describes the training to server 0, unless it is known there. *ret_checkpoint, as of
 * exchange_open(), is the description in force, possibly another worker's; NULL: it was known.
 * ERROR_CONFLICT if the servers' options differ. */
enum error exchange_propose(struct exchange *exchange, const struct checkpoint_facts *facts,
                            struct checkpoint **ret_checkpoint) MUST_CHECK;
/* Sets the values and step of `model`, which computes on `engine` (both borrowed). The stream has
 * `epochs` (0: no end) and `batches`, required for NCCL (INT64_MAX: no end; -1: only the sampler
 * knows). ERROR_CONFLICT: other workers have a stream of more epochs. */
enum error exchange_begin(struct exchange *exchange, const struct engine *engine,
                          struct model *model, int64_t epochs, int64_t batches) MUST_CHECK;

/* Ensures that the feed has a batch to fetch: passes server 0's grants on to `feed`, and blocks
 * until there is one. ERROR_END: the training is over, and the model has its final values. */
enum error exchange_refill(struct exchange *exchange, struct feed *feed) MUST_CHECK;
/* Call it if the feed has delivered nothing for a while: other workers may have finished, which
 * exchange_refill() then reports. Legal while batches are granted and not pushed. */
enum error exchange_look(struct exchange *exchange) MUST_CHECK;
/* Does `batch`, which the feed has delivered, belong to this worker? If not, put it back unused. */
bool exchange_take(struct exchange *exchange, int64_t batch);
/* Pushes the model's gradient of `batch` (`rows` 0: it has none) and sets the new values.
 * *ret_again: the gradient's values were too old (--staleness); compute it again with the new
 * ones. */
enum error exchange_push(struct exchange *exchange, int64_t batch, size_t rows,
                         bool *ret_again) MUST_CHECK;
/* The stream, of `epochs` now, ends before batch `end`: returns the batches that this worker holds;
 * the caller then reopens its feed. ERROR_CONFLICT: other workers have a stream of more epochs. */
enum error exchange_end_stream(struct exchange *exchange, int64_t epochs, int64_t end) MUST_CHECK;

#endif
