/*
 * A few threads for requests that take too long for an HTTP thread: opening a walk, a batch far
 * ahead of a design that passes positions over; in a second lane, positions with replacement, which
 * may take many seconds. The queue is bounded; what does not fit is refused, so that a flood of
 * them costs memory for SLOW_LANE_QUEUE_LIMIT and no more. They run at SLOW_LANE_NICE: draws have
 * the processors first.
 */
#ifndef COMMON_THREAD_POOL_H
#define COMMON_THREAD_POOL_H

#include <stdbool.h>

#include "common/error.h"

#define SLOW_LANE_THREADS 2
#define SLOW_LANE_QUEUE_LIMIT 64
#define SLOW_LANE_NICE 10

/* Storage of the caller's, untouched until run() was called. */
struct slow_job {
    struct slow_job *next;
    /* Once, from a thread of the lane; *stop (of the lane) becomes true when it is to end at once.
     */
    void (*run)(struct slow_job *job, const _Atomic bool *stop);
};

struct slow_lane;

/* Makes the calling thread one that draws do not wait for. */
void slow_lane_enter(void);

enum error slow_lane_new(struct slow_lane **ret_lane) MUST_CHECK;
/* Every thread. ERROR_UNAVAILABLE: the queue is full, or the lane ends. */
enum error slow_lane_add(struct slow_lane *lane, struct slow_job *job) MUST_CHECK;
/* Refuses new jobs, asks those that are there to end, runs those that wait (so that each is heard
 * of), and joins the threads. NULL and a second call are legal. */
void slow_lane_stop(struct slow_lane *lane);
/* The same, and frees it. NULL is legal. */
void slow_lane_free(struct slow_lane *lane);

#endif
