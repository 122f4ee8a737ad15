/* SPDX-License-Identifier: MIT */
#include "common/errand.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/stop.h"
#include "common/thread.h"

#define STEP_MS 50
#define STOP_MS 500 /* for work that heeds stop_requested() */

struct errand {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*work)(void *context);
    void (*release)(void *context);
    void *context;
    pthread_t thread;
    bool is_started;
    bool is_done, is_left; /* with both it is nobody's; done, too: not started */
};

static void end_if_nobodys(struct errand *errand, bool is_nobodys)
{
    if (!is_nobodys)
        return;
    if (errand->release)
        errand->release(errand->context);
    pthread_cond_destroy(&errand->changed);
    pthread_mutex_destroy(&errand->lock);
    free(errand);
}

static void *run(void *context)
{
    struct errand *errand = context;
    errand->work(errand->context);
    pthread_mutex_lock(&errand->lock);
    errand->is_done = true;
    bool is_nobodys = errand->is_left;
    pthread_cond_signal(&errand->changed);
    pthread_mutex_unlock(&errand->lock);
    end_if_nobodys(errand, is_nobodys);
    return NULL;
}

enum error errand_new(void (*work)(void *context), void (*release)(void *context), void *context,
                      struct errand **ret_errand)
{
    struct errand *errand = array_new(1, sizeof(*errand), "a thread's work");
    if (!errand)
        return ERROR_MEMORY;
    *errand =
        (struct errand){.work = work, .release = release, .context = context, .is_done = true};
    pthread_mutex_init(&errand->lock, NULL);
    pthread_cond_init(&errand->changed, NULL);
    *ret_errand = errand;
    return OK;
}

enum error errand_start(struct errand *errand, const char *name)
{
    errand->is_done = false;
    enum error error = thread_start(name, run, errand, &errand->thread);
    errand->is_started = !error;
    if (error)
        errand->is_done = true;
    return error;
}

bool errand_wait(struct errand *errand, int64_t deadline_ns)
{
    struct timespec until = clock_timespec(deadline_ns);
    int failure = 0;
    pthread_mutex_lock(&errand->lock);
    while (!errand->is_done && !failure)
        failure = pthread_cond_clockwait(&errand->changed, &errand->lock, CLOCK_MONOTONIC, &until);
    bool is_done = errand->is_done;
    pthread_mutex_unlock(&errand->lock);
    return is_done;
}

enum error errand_run(struct errand *errand, const char *name, const _Atomic bool *is_past)
{
    int64_t deadline_ns = INT64_MAX;
    enum error error = errand_start(errand, name);
    while (!error && !errand_wait(errand, clock_deadline_ns(STEP_MS))) {
        if (stop_requested() && deadline_ns == INT64_MAX)
            deadline_ns = clock_deadline_ns(STOP_MS);
        if (clock_now_ns() >= deadline_ns && !(is_past && atomic_load(is_past)))
            error = error_set(ERROR_CANCELLED,
                              "stopped while a thread hangs in the system; it is left behind");
    }
    return error;
}

void errand_leave(struct errand *errand)
{
    if (!errand)
        return;
    pthread_t thread = errand->thread;
    bool is_started = errand->is_started;
    pthread_mutex_lock(&errand->lock);
    errand->is_left = true;
    bool is_nobodys = errand->is_done;
    pthread_mutex_unlock(&errand->lock);
    /* What libraries keep for a thread is freed at its end, which is a moment after its work's. */
    if (is_started && is_nobodys)
        pthread_join(thread, NULL);
    else if (is_started)
        pthread_detach(thread);
    end_if_nobodys(errand, is_nobodys);
}
