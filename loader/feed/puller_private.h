/* SPDX-License-Identifier: MIT */
/* Shared by puller.c, puller_draw.c and pull_push.c: a puller's threads. Private to them. */
#ifndef LOADER_FEED_PULLER_PRIVATE_H
#define LOADER_FEED_PULLER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "loader/feed/lease_share.h"
#include "loader/feed/puller.h"
#include "loader/feed/sampler_client.h"

#define DRAWS_KNOWN 1024 /* a batch that one of so many draws brought is not taken again */

enum connection_state {
    CONNECTION_IDLE,   /* requests nothing */
    CONNECTION_SENT,   /* a request is in flight */
    CONNECTION_HELD,   /* a response waits for its turn */
    CONNECTION_PUSHING /* it is being pushed */
};

struct pull_connection {
    struct puller *puller;
    struct sampler_client *client;
    pthread_t thread;
    bool started;
    int64_t seq, seqs_end; /* FEED_LEASE: reserved seqs for its next draws */
    /* Under the puller's lock: */
    enum connection_state state;
    uint64_t sent, received; /* times of the puller's logical clock */
    int64_t first;           /* CONNECTION_HELD: position at which the response begins */
    int64_t furthest, falls; /* the puller's, when the request was sent */
};

struct puller {
    struct puller_options options;
    struct pull_queue *queue;
    struct ring *ring;
    struct pull_connection *connections; /* [options.connections] */
    _Atomic int64_t busy_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t clock;
    int64_t requested;          /* draws sent so far */
    int64_t furthest;           /* end of the batches received since the stream last went back */
    int64_t falls;              /* how often it went back */
    uint64_t draws;             /* received since then */
    int64_t drawn[DRAWS_KNOWN]; /* where the latest of them began; a ring */
    struct lease_share share;
    int64_t asked;           /* FEED_LEASE: batches received or requested */
    _Atomic int64_t handed;  /* how many of those received the caller has taken */
    _Atomic int64_t wake_at; /* a connection waits until that many are; INT64_MAX: none waits */
    struct grant_queue grants;
    struct sampler_stream stream; /* by index, once `described`; of draws, once `compares` */
    atomic_bool described;
    int64_t next_index, pulled; /* the next batch; how many were received */
    size_t running;             /* threads still running */
    bool ended, stopped;        /* no new request is sent */
    atomic_bool cancelled;      /* lengths of rows are no longer waited for */
    struct error_report report; /* the reason: the first failure, else ERROR_END */
    /* One connection compares stream and store, the others wait for it. */
    pthread_mutex_t check_lock;
    bool checked;
    bool compares; /* puller_draws(): the stream could be read, and must stay what it was */
    struct error_report check_report;
};

/* Does the stream move? */
static inline bool puller_draws(const struct puller *puller)
{
    return puller->options.pull == FEED_DRAW || puller->options.pull == FEED_LEASE;
}

/* One connection's loop if puller_draws(). Returns when there is nothing more to request. */
enum error puller_draw_loop(struct pull_connection *connection) MUST_CHECK;

#endif
