/*
 * A few threads for requests that take too long for an HTTP thread: opening a walk, a batch far
 * ahead of a design that passes positions over; in a second lane, positions with replacement, which
 * may take many seconds. The queue is bounded; what does not fit is refused, so that a flood of
 * them costs memory for THREAD_POOL_QUEUE_LIMIT and no more. They run at THREAD_POOL_NICE: draws have
 * the processors first.
 */
#ifndef COMMON_THREAD_POOL_H
#define COMMON_THREAD_POOL_H

#include <stdbool.h>

#include "common/error.h"

#define THREAD_POOL_THREADS 2
#define THREAD_POOL_QUEUE_LIMIT 64
#define THREAD_POOL_NICE 10

/* Storage of the caller's, untouched until run() was called. */
struct pool_job {
    struct pool_job *next;
    /* Once, from a thread of the lane; *stop (of the lane) becomes true when it is to end at once.
     */
    void (*run)(struct pool_job *job, const _Atomic bool *stop);
};

struct thread_pool;

/* Makes the calling thread one that draws do not wait for. */
void thread_pool_enter(void);

enum error thread_pool_new(struct thread_pool **ret_lane) MUST_CHECK;
/* Every thread. ERROR_UNAVAILABLE: the queue is full, or the lane ends. */
enum error thread_pool_add(struct thread_pool *lane, struct pool_job *job) MUST_CHECK;
/* Refuses new jobs, asks those that are there to end, runs those that wait (so that each is heard
 * of), and joins the threads. NULL and a second call are legal. */
void thread_pool_stop(struct thread_pool *lane);
/* The same, and frees it. NULL is legal. */
void thread_pool_free(struct thread_pool *lane);

#endif
