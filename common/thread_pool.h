/* SPDX-License-Identifier: MIT */
/*
 * A few threads for jobs that take too long for the thread that wants them. The queue is bounded:
 * what does not fit is refused, so that a flood of jobs costs memory for THREAD_POOL_QUEUE_LIMIT
 * and no more. They run at THREAD_POOL_NICE: what answers at once has the processors first.
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
    /* Once, from a thread of the pool; *stop (of the pool) becomes true to end it at once. */
    void (*run)(struct pool_job *job, const _Atomic bool *stop);
};

struct thread_pool;

/* Gives the calling thread that priority. */
void thread_pool_enter(void);

enum error thread_pool_new(struct thread_pool **ret_pool) MUST_CHECK;
/* Every thread. ERROR_UNAVAILABLE: the queue is full, or the pool ends. */
enum error thread_pool_add(struct thread_pool *pool, struct pool_job *job) MUST_CHECK;
/* Refuses new jobs, asks running ones to stop, runs the queued ones, so that every job reports
 * back, and joins the threads. NULL and a second call are legal. */
void thread_pool_stop(struct thread_pool *pool);
/* The same, and frees it. NULL is legal. */
void thread_pool_free(struct thread_pool *pool);

#endif
