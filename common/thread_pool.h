/* SPDX-License-Identifier: MIT */
/*
 * A few threads for jobs that would keep their caller too long. The queue is bounded: further jobs
 * are refused, so that a flood costs no more memory than THREAD_POOL_QUEUE_LIMIT jobs. Threads run
 * at THREAD_POOL_NICE, so that quick responses get the processors first.
 */
#ifndef COMMON_THREAD_POOL_H
#define COMMON_THREAD_POOL_H

#include <stdbool.h>

#include "common/error.h"

#define THREAD_POOL_THREADS 2
#define THREAD_POOL_QUEUE_LIMIT 64
#define THREAD_POOL_NICE 10

/* Caller's storage; leave untouched until run() was called. */
struct pool_job {
    struct pool_job *next;
    /* Called once, on a thread of the pool; *stop (the pool's) becomes true to end it at once. */
    void (*run)(struct pool_job *job, const _Atomic bool *stop);
};

struct thread_pool;

/* Gives the calling thread the pool's priority. */
void thread_pool_enter(void);

enum error thread_pool_new(struct thread_pool **ret_pool) MUST_CHECK;
/* Any thread. ERROR_UNAVAILABLE: the queue is full, or the pool is stopping. */
enum error thread_pool_add(struct thread_pool *pool, struct pool_job *job) MUST_CHECK;
/* Refuses new jobs, and asks the others, queued or running, to end at once: every job still reports
 * back. Waits for none. A second call is legal. */
void thread_pool_stop(struct thread_pool *pool);
/* The same; waits for the jobs, and frees the pool. NULL is legal. */
void thread_pool_free(struct thread_pool *pool);

#endif
