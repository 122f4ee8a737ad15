/* SPDX-License-Identifier: MIT */
/*
 * HELLO: who connects, which server it expects, options that all processes of a training share, and
 * the training's password: TOMBOLA_TOKEN in the caller's environment. A server that has a password
 * refuses clients without it; a server without one accepts everyone who can reach its port.
 */
#ifndef TRAINER_WIRE_HELLO_H
#define TRAINER_WIRE_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/feed/feed.h"

#define HELLO_ROLE_BYTES 16

struct hello {
    char role[HELLO_ROLE_BYTES]; /* "worker", "chief", "master", "ps", "evaluator" */
    int64_t index;               /* of the caller's task, at least 0 */
    int64_t server, servers;     /* it expects server `server` of this many */
    int64_t aggregate;           /* synchronous: batches a step; 0: asynchronous */
    int64_t staleness;           /* asynchronous: how many steps old values may be; -1: any */
    int64_t train_steps;         /* 0: the caller knows no end, such as an evaluator */
    bool was_saved;              /* a worker: server 0 has had a checkpoint */
    bool is_grouped;             /* workers' GPUs exchange gradients (--exchange nccl) */
    bool round_robin;            /* how parameters are distributed over servers (shard.h) */
    enum bad_rows bad_rows;      /* a worker's */
    uint64_t generation;         /* a ps: of its shard; 0: none */
};

/* Appends the payload. */
enum error hello_print(const struct hello *hello, struct buffer *out) MUST_CHECK;
/* ERROR_INPUT: malformed; ERROR_CONFLICT: a different password, or none. */
enum error hello_parse(const char *payload, size_t bytes, struct hello *ret_hello) MUST_CHECK;

#endif
