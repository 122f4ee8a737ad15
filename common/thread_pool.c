/* SPDX-License-Identifier: MIT */
#include "common/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/array.h"
#include "common/thread.h"

struct thread_pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t threads[THREAD_POOL_THREADS];
    int thread_count;
    struct pool_job *first;
    struct pool_job **last;
    int queued;
    bool ending;
    _Atomic bool stop;
};

/* NULL: the pool is stopping and nothing is queued. */
static struct pool_job *next_job(struct thread_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    while (!pool->first && !pool->ending)
        pthread_cond_wait(&pool->changed, &pool->mutex);
    struct pool_job *job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

void thread_pool_enter(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_POOL_NICE); /* of a thread, on Linux */
}

static void *work(void *context)
{
    struct thread_pool *pool = context;
    thread_pool_enter();
    for (struct pool_job *job = next_job(pool); job; job = next_job(pool))
        job->run(job, &pool->stop);
    return NULL;
}

enum error thread_pool_new(struct thread_pool **ret_pool)
{
    struct thread_pool *pool = array_new(1, sizeof(*pool), "a thread pool");
    if (!pool)
        return ERROR_MEMORY;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pool->last = &pool->first;
    for (int i = 0; i < THREAD_POOL_THREADS; i++) {
        enum error error = thread_start("thread pool", work, pool, &pool->threads[i]);
        if (error) {
            thread_pool_free(pool);
            return error;
        }
        pool->thread_count++;
    }
    *ret_pool = pool;
    return OK;
}

enum error thread_pool_add(struct thread_pool *pool, struct pool_job *job)
{
    enum error error = OK;
    pthread_mutex_lock(&pool->mutex);
    if (pool->ending)
        error = error_set(ERROR_UNAVAILABLE, "the server is stopping");
    else if (pool->queued >= THREAD_POOL_QUEUE_LIMIT)
        error =
            error_set(ERROR_UNAVAILABLE, "%d requests that take long wait already; ask again later",
                      THREAD_POOL_QUEUE_LIMIT);
    if (!error) {
        job->next = NULL;
        *pool->last = job;
        pool->last = &job->next;
        pool->queued++;
        pthread_cond_signal(&pool->changed);
    }
    pthread_mutex_unlock(&pool->mutex);
    return error;
}

void thread_pool_stop(struct thread_pool *pool)
{
    atomic_store(&pool->stop, true);
    pthread_mutex_lock(&pool->mutex);
    pool->ending = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}

void thread_pool_free(struct thread_pool *pool)
{
    if (!pool)
        return;
    thread_pool_stop(pool);
    for (int i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
