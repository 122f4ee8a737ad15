/* SPDX-License-Identifier: MIT */
/*
 * The watch of a rank: a thread that reports this rank's progress to server 0 five times a second,
 * learns whether its group still exists, and polls NCCL for errors. When the group has ended, it
 * stops the joint step and aborts what hangs in the GPU's queue, which unblocks the model's thread.
 * While it runs it owns the connection to server 0.
 *
 * Threads: the model's thread makes all calls.
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
    bool is_ready;      /* the thread has selected its GPU */
    bool ends;          /* the thread must return */
    bool is_connecting; /* from here on NCCL is polled for errors */
    bool is_broken;     /* the group has ended */
    bool is_over;       /* the training has ended */
    bool is_finished;   /* this rank has made the last step */
    bool wants_state;   /* server 0 asked for the state */
    bool was_saved;     /* it has had a checkpoint, in this group or an earlier one */
    int64_t ordered;    /* enqueued steps */
    const float *state; /* [state_count], borrowed: to be sent; NULL: nothing, or sent */
    size_t state_count;
    int64_t state_step;
};

/* Once each. */
void rank_watch_init(struct rank_watch *watch);
void rank_watch_release(struct rank_watch *watch);

/* Starts the thread for `group`, which starts from step joint_step_made() with nothing enqueued. */
enum error rank_watch_start(struct rank_watch *watch, uint64_t generation,
                            int64_t group) MUST_CHECK;
/* Stops the thread, if it runs. */
void rank_watch_stop(struct rank_watch *watch);

/* NCCL has connected: poll it for errors from now on. */
void rank_watch_connects(struct rank_watch *watch);
/* `ordered` steps are enqueued. */
void rank_watch_tell(struct rank_watch *watch, int64_t ordered);
void rank_watch_finish(struct rank_watch *watch);
/* Ends the group for this rank, whatever server 0 knows. `why` is logged. */
void rank_watch_break_off(struct rank_watch *watch, const char *why);
bool rank_watch_is_broken(struct rank_watch *watch);
bool rank_watch_is_over(struct rank_watch *watch);
bool rank_watch_was_saved(struct rank_watch *watch);
bool rank_watch_wants_state(struct rank_watch *watch);
/* Sends state[count] of step `step`; it must stay valid until it is sent or the watch stopped. */
void rank_watch_send(struct rank_watch *watch, const float *state, size_t count, int64_t step);
/* Blocks until something has changed or the deadline (clock.h) has passed; false: the latter. */
bool rank_watch_await_change(struct rank_watch *watch, int64_t deadline_ns);
/* Blocks until the state is sent; false: the deadline has passed, or the group has ended. */
bool rank_watch_await_sent(struct rank_watch *watch, int64_t deadline_ns);

#endif
