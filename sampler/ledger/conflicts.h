/* SPDX-License-Identifier: MIT */
/*
 * The kinds of conflict that a client has to distinguish (error_set_kind()): a 409, or a 503,
 * has the type "/problems/KIND". Published: a kind never changes its name or meaning.
 */
#ifndef SAMPLER_LEDGER_CONFLICTS_H
#define SAMPLER_LEDGER_CONFLICTS_H

/* A draw: */
#define PROBLEM_ALL_LENT "all-lent"     /* only leased batches are left */
#define PROBLEM_PAUSED "paused"         /* of the stream; nothing new is drawn */
#define PROBLEM_PAIR_ACKED "pair-acked" /* (worker, seq) is done */
#define PROBLEM_PAIR_LOST "pair-lost"   /* it expired and was redelivered, or was withdrawn */
#define PROBLEM_WORKER_FORGOTTEN "worker-forgotten" /* the worker was forgotten since that seq */
#define PROBLEM_OTHER_SIZE "other-size"           /* (worker, seq) has a batch, for another size */
#define PROBLEM_BATCH_TOO_LARGE "batch-too-large" /* the design's only size is above --max-size */
/* An ack or extension: */
#define PROBLEM_LATE_ACK "late-ack"     /* the batch is another worker's, or was withdrawn */
#define PROBLEM_NEVER_LENT "never-lent" /* (worker, seq) had no batch; the published name stays */
/* Streams: */
#define PROBLEM_NAME_IN_USE "name-in-use"
#define PROBLEM_TOO_MANY_STREAMS "too-many-streams"
#define PROBLEM_DEFAULT_STREAM "default-stream" /* cannot be deleted */
#define PROBLEM_OTHER_ORDER "other-order"       /* the token is for another frame, design or seed */

#endif
