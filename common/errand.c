/* SPDX-License-Identifier: MIT */
#include "common/errand.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/thread.h"

struct errand {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*work)(void *context);
    void (*release)(void *context);
    void *context;
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
    pthread_t thread;
    errand->is_done = false;
    enum error error = thread_start(name, run, errand, &thread);
    if (error)
        errand->is_done = true;
    else
        pthread_detach(thread);
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

void errand_leave(struct errand *errand)
{
    if (!errand)
        return;
    pthread_mutex_lock(&errand->lock);
    errand->is_left = true;
    bool is_nobodys = errand->is_done;
    pthread_mutex_unlock(&errand->lock);
    end_if_nobodys(errand, is_nobodys);
}
