/* SPDX-License-Identifier: MIT */
#include "sampler/service/checks.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"

#define CHECK_MS 1000
#define END_MS 1000

struct checks {
    const struct state *state;
    const struct frame_set *frames;
    struct errand *errand;
    struct error_report report; /* read when the errand is done */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
};

static void release(void *context)
{
    struct checks *checks = context;
    pthread_cond_destroy(&checks->changed);
    pthread_mutex_destroy(&checks->mutex);
    free(checks);
}

static enum error look(const struct checks *checks)
{
    enum error error = checks->state ? state_check(checks->state) : OK;
    for (size_t i = 0; i < frame_set_count(checks->frames) && !error; i++)
        error = frame_check_file(frame_set_at(checks->frames, i)->frame);
    return error;
}

/* False: shutdown. */
static bool wait_for_next(struct checks *checks)
{
    struct timespec next = clock_timespec(clock_deadline_ns(CHECK_MS));
    pthread_mutex_lock(&checks->mutex);
    int error = 0;
    while (!checks->stopping && !error)
        error = pthread_cond_clockwait(&checks->changed, &checks->mutex, CLOCK_MONOTONIC, &next);
    bool goes_on = !checks->stopping;
    pthread_mutex_unlock(&checks->mutex);
    return goes_on;
}

static void work(void *context)
{
    struct checks *checks = context;
    enum error error = OK;
    while (!error && wait_for_next(checks))
        error = look(checks);
    error_report_take(error, &checks->report);
}

enum error checks_new(const struct state *state, const struct frame_set *frames,
                      struct checks **ret_checks)
{
    struct checks *checks = array_new(1, sizeof(*checks), "the checks");
    if (!checks)
        return ERROR_MEMORY;
    checks->state = state;
    checks->frames = frames;
    pthread_mutex_init(&checks->mutex, NULL);
    pthread_cond_init(&checks->changed, NULL);
    enum error error = errand_new(work, release, checks, &checks->errand);
    if (error) {
        release(checks);
        return error;
    }
    error = errand_start(checks->errand, "checks");
    if (!error)
        *ret_checks = checks;
    else
        errand_leave(checks->errand);
    return error;
}

enum error checks_result(const struct checks *checks)
{
    bool ended = errand_wait(checks->errand, clock_now_ns());
    return ended ? error_restore(&checks->report) : OK;
}

bool checks_free(struct checks *checks)
{
    if (!checks)
        return true;
    pthread_mutex_lock(&checks->mutex);
    checks->stopping = true;
    pthread_cond_signal(&checks->changed);
    pthread_mutex_unlock(&checks->mutex);
    bool ended = errand_wait(checks->errand, clock_deadline_ns(END_MS));
    errand_leave(checks->errand);
    return ended;
}
