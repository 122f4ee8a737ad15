#include "common/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/array.h"

struct slow_lane {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t threads[SLOW_LANE_THREADS];
    int thread_count;
    struct slow_job *first;
    struct slow_job **last;
    int queued;
    bool ending;
    _Atomic bool stop;
};

/* NULL: the lane ends and nothing waits. */
static struct slow_job *next_job(struct slow_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    while (!lane->first && !lane->ending)
        pthread_cond_wait(&lane->changed, &lane->mutex);
    struct slow_job *job = lane->first;
    if (job) {
        lane->first = job->next;
        if (!lane->first)
            lane->last = &lane->first;
        lane->queued--;
    }
    pthread_mutex_unlock(&lane->mutex);
    return job;
}

void slow_lane_enter(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), SLOW_LANE_NICE); /* of a thread, on Linux */
}

static void *work(void *context)
{
    struct slow_lane *lane = context;
    slow_lane_enter();
    for (struct slow_job *job = next_job(lane); job; job = next_job(lane))
        job->run(job, &lane->stop);
    return NULL;
}

enum error slow_lane_new(struct slow_lane **ret_lane)
{
    struct slow_lane *lane = array_new(1, sizeof(*lane), "the slow lane");
    if (!lane)
        return ERROR_MEMORY;
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->changed, NULL);
    lane->last = &lane->first;
    for (int i = 0; i < SLOW_LANE_THREADS; i++) {
        int code = pthread_create(&lane->threads[i], NULL, work, lane);
        if (code != 0) {
            slow_lane_free(lane);
            return error_set_errno(ERROR_MEMORY, code, "cannot start a thread");
        }
        lane->thread_count++;
    }
    *ret_lane = lane;
    return OK;
}

enum error slow_lane_add(struct slow_lane *lane, struct slow_job *job)
{
    enum error error = OK;
    pthread_mutex_lock(&lane->mutex);
    if (lane->ending)
        error = error_set(ERROR_UNAVAILABLE, "the server is stopping");
    else if (lane->queued >= SLOW_LANE_QUEUE_LIMIT)
        error =
            error_set(ERROR_UNAVAILABLE, "%d requests that take long wait already; ask again later",
                      SLOW_LANE_QUEUE_LIMIT);
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

void slow_lane_stop(struct slow_lane *lane)
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

void slow_lane_free(struct slow_lane *lane)
{
    if (!lane)
        return;
    slow_lane_stop(lane);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
}
