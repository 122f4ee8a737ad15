#include "common/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/array.h"

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

/* NULL: the lane ends and nothing waits. */
static struct pool_job *next_job(struct thread_pool *lane)
{
    pthread_mutex_lock(&lane->mutex);
    while (!lane->first && !lane->ending)
        pthread_cond_wait(&lane->changed, &lane->mutex);
    struct pool_job *job = lane->first;
    if (job) {
        lane->first = job->next;
        if (!lane->first)
            lane->last = &lane->first;
        lane->queued--;
    }
    pthread_mutex_unlock(&lane->mutex);
    return job;
}

void thread_pool_enter(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_POOL_NICE); /* of a thread, on Linux */
}

static void *work(void *context)
{
    struct thread_pool *lane = context;
    thread_pool_enter();
    for (struct pool_job *job = next_job(lane); job; job = next_job(lane))
        job->run(job, &lane->stop);
    return NULL;
}

enum error thread_pool_new(struct thread_pool **ret_lane)
{
    struct thread_pool *lane = array_new(1, sizeof(*lane), "the slow lane");
    if (!lane)
        return ERROR_MEMORY;
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->changed, NULL);
    lane->last = &lane->first;
    for (int i = 0; i < THREAD_POOL_THREADS; i++) {
        int code = pthread_create(&lane->threads[i], NULL, work, lane);
        if (code != 0) {
            thread_pool_free(lane);
            return error_set_errno(ERROR_MEMORY, code, "cannot start a thread");
        }
        lane->thread_count++;
    }
    *ret_lane = lane;
    return OK;
}

enum error thread_pool_add(struct thread_pool *lane, struct pool_job *job)
{
    enum error error = OK;
    pthread_mutex_lock(&lane->mutex);
    if (lane->ending)
        error = error_set(ERROR_UNAVAILABLE, "the server is stopping");
    else if (lane->queued >= THREAD_POOL_QUEUE_LIMIT)
        error =
            error_set(ERROR_UNAVAILABLE, "%d requests that take long wait already; ask again later",
                      THREAD_POOL_QUEUE_LIMIT);
    if (!error) {
        job->next = NULL;
        *lane->last = job;
        lane->last = &job->next;
        lane->queued++;
        pthread_cond_signal(&lane->changed);
    }
    pthread_mutex_unlock(&lane->mutex);
    return error;
}

void thread_pool_stop(struct thread_pool *lane)
{
    if (!lane)
        return;
    atomic_store(&lane->stop, true);
    pthread_mutex_lock(&lane->mutex);
    lane->ending = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
    for (int i = 0; i < lane->thread_count; i++)
        pthread_join(lane->threads[i], NULL);
    lane->thread_count = 0;
}

void thread_pool_free(struct thread_pool *lane)
{
    if (!lane)
        return;
    thread_pool_stop(lane);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
}
