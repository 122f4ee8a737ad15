/* SPDX-License-Identifier: MIT */
/*
 * HELLO: who calls, whom it takes the other end for, options that all processes of a training
 * share, and the training's password: what TOMBOLA_TOKEN is in the caller's environment. A server
 * that has one lets nobody in without it; a server that has none lets in everybody who reaches its
 * port.
 */
#ifndef TRAINER_WIRE_HELLO_H
#define TRAINER_WIRE_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

#define HELLO_ROLE_BYTES 16

struct hello {
    char role[HELLO_ROLE_BYTES]; /* "worker", "chief", "master", "ps", "evaluator" */
    int64_t index;               /* of the caller's task, at least 0 */
    int64_t server, servers;     /* it calls number `server` of so many */
    int64_t aggregate;           /* synchronous: batches a step; 0: asynchronous */
    int64_t staleness;           /* asynchronous: how many steps old values may be; -1: any */
    int64_t train_steps;         /* 0: the caller knows of no end, as an evaluator */
    bool is_grouped;             /* workers' GPUs exchange gradients (--exchange nccl) */
    bool round_robin;            /* how parameters are spread over servers (shard.h) */
    uint64_t generation;         /* a ps: of the shard that it holds; 0: none */
};

/* Appends the payload. */
enum error hello_print(const struct hello *hello, struct buffer *out) MUST_CHECK;
/* ERROR_INPUT: it is none; ERROR_CONFLICT: another password, or none. */
enum error hello_parse(const char *payload, size_t bytes, struct hello *ret_hello) MUST_CHECK;

#endif
