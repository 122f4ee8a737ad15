/* SPDX-License-Identifier: MIT */
/*
 * The watch of a rank: a thread that tells server 0 five times a second how far this rank is, hears
 * whether its group still stands, and looks whether NCCL has met an error. If the group is over it
 * stops the joint step and aborts what hangs in the GPU's queue, so that the model's thread gets
 * on. While it runs the connection to server 0 is its own.
 *
 * Threads: the model's starts, asks and ends it.
 */
#ifndef TRAINER_EXCHANGE_RANK_WATCH_H
#define TRAINER_EXCHANGE_RANK_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "trainer/compute/nccl.h"
#include "trainer/exchange/joint_step.h"
#include "trainer/wire/link.h"

struct rank_watch {
    struct link *link; /* borrowed, as all of these */
    struct nccl *nccl;
    struct joint_step *step;
    const struct device *device;
    uint64_t generation;
    int64_t group;

    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    bool is_ready;      /* the thread has chosen its GPU */
    bool ends;          /* it is to */
    bool is_connecting; /* NCCL's errors count from here on */
    bool is_broken;     /* the group is over */
    bool is_over;       /* the training is */
    bool is_finished;   /* this rank has made the last step */
    bool wants_state;
    int64_t ordered;    /* steps that are enqueued */
    const float *state; /* [state_count], borrowed, to be sent; NULL: none, or it was */
    size_t state_count;
    int64_t state_step;
};

/* Once; and at the end. */
void rank_watch_init(struct rank_watch *watch);
void rank_watch_release(struct rank_watch *watch);

/* Begins to watch the group, whose begin is joint_step_made() and which has nothing enqueued. */
enum error rank_watch_start(struct rank_watch *watch, uint64_t generation,
                            int64_t group) MUST_CHECK;
/* Ends the thread. Legal when none runs. */
void rank_watch_stop(struct rank_watch *watch);

/* NCCL begins to connect. */
void rank_watch_connects(struct rank_watch *watch);
/* So many steps are enqueued. */
void rank_watch_tell(struct rank_watch *watch, int64_t ordered);
void rank_watch_finish(struct rank_watch *watch);
/* The group is over for this rank, whatever server 0 thinks. */
void rank_watch_break_off(struct rank_watch *watch, const char *why);
bool rank_watch_is_broken(struct rank_watch *watch);
bool rank_watch_is_over(struct rank_watch *watch);
bool rank_watch_wants_state(struct rank_watch *watch);
/* Sends state[count], of after `step`, which must stay until it is sent or the watch is stopped. */
void rank_watch_send(struct rank_watch *watch, const float *state, size_t count, int64_t step);
/* Waits until something has changed, or the deadline (clock.h); false: the deadline. */
bool rank_watch_await_change(struct rank_watch *watch, int64_t deadline_ns);
/* Waits until what is to be sent was; false: the deadline has passed, or it cannot be. */
bool rank_watch_await_sent(struct rank_watch *watch, int64_t deadline_ns);

#endif
