/* SPDX-License-Identifier: MIT */
/*
 * A parameter server: holds a shard of the parameters, applies the gradients that workers push and
 * answers with the new values. Server 0 is also the coordinator (coordinator.h); the others keep a
 * connection to it.
 *
 * One thread, one epoll set, no waiting for a peer: one that is slow, stopped or gone costs the
 * others nothing.
 */
#ifndef TRAINER_SERVER_SERVER_H
#define TRAINER_SERVER_SERVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/http/guard.h"
#include "loader/feed/feed.h"
#include "trainer/server/coordinator.h"

struct server_options {
    int descriptor;        /* listening; taken, also on failure */
    size_t index;          /* of this server; `coordinator.servers` is their number */
    const char *zero_host; /* address of server 0; not used by server 0 itself */
    uint16_t zero_port;
    int64_t staleness;          /* asynchronous: how many steps old values may be; < 0: any */
    enum bad_rows bad_rows;     /* what workers do with them */
    struct guard_options guard; /* for HTTP; without a grammar */
    struct engine_options engine;
    struct coordinator_options coordinator; /* used by server 0, except servers and round_robin */
};

/* Serves until the training is over: OK; ERROR_CANCELLED after a signal, once everything that can
 * be saved is. */
enum error server_run(const struct server_options *options) MUST_CHECK;

#endif
