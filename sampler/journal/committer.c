/* SPDX-License-Identifier: MIT */
#include "sampler/journal/committer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/thread.h"
#include "sampler/journal/journal_private.h"

#define IDLE_MS 1000
#define WATCH_MS 500
#define END_MS 10000 /* for one system call, at shutdown */

struct committer {
    struct journal *journal;
    struct errand *work;
    _Atomic bool stopping;
    _Atomic bool finishes;       /* and the journal ends in order */
    struct error_report outcome; /* of journal_finish(); read when the thread is done */
    pthread_t watch;
    pthread_mutex_t mutex; /* guards the following */
    pthread_cond_t ended;
    bool ends;
};

static void work(void *context)
{
    struct committer *committer = context;
    bool stopping = false;
    bool worked = true;
    while (!stopping || worked) { /* journal_work() sleeps until there is work */
        stopping = atomic_load(&committer->stopping);
        worked = journal_work(committer->journal, clock_deadline_ns(IDLE_MS), stopping);
    } /* read before the last check: no work can have arrived since */
    if (atomic_load(&committer->finishes))
        error_report_take(journal_finish(committer->journal), &committer->outcome);
}

static void *watch(void *context)
{
    struct committer *committer = context;
    pthread_mutex_lock(&committer->mutex);
    while (!committer->ends) {
        struct timespec next = clock_timespec(clock_deadline_ns(WATCH_MS));
        (void)pthread_cond_clockwait(&committer->ended, &committer->mutex, CLOCK_MONOTONIC, &next);
        journal_watch(committer->journal, clock_now_ns());
    }
    pthread_mutex_unlock(&committer->mutex);
    return NULL;
}

static void end_watch(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    committer->ends = true;
    pthread_cond_signal(&committer->ended);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->watch, NULL);
}

static void release(struct committer *committer)
{
    errand_leave(committer->work);
    pthread_cond_destroy(&committer->ended);
    pthread_mutex_destroy(&committer->mutex);
    free(committer);
}

enum error committer_new(struct journal *journal, struct committer **ret_committer)
{
    struct committer *committer = array_new(1, sizeof(*committer), "the committer");
    if (!committer)
        return ERROR_MEMORY;
    committer->journal = journal;
    pthread_mutex_init(&committer->mutex, NULL);
    pthread_cond_init(&committer->ended, NULL);
    enum error error = errand_new(work, NULL, committer, &committer->work);
    if (!error)
        error = thread_start("journal watch", watch, committer, &committer->watch);
    if (!error) {
        error = errand_start(committer->work, "journal");
        if (error)
            end_watch(committer);
    }
    if (!error)
        *ret_committer = committer;
    else
        release(committer);
    return error;
}

/* There is no time limit while the disk responds; after a timeout it is not tried again. */
static bool end_work(struct committer *committer)
{
    bool again = atomic_exchange(&committer->stopping, true);
    int64_t patience_ms = again ? 0 : END_MS;
    uint64_t calls;
    bool done;
    journal_wake(committer->journal);
    do {
        calls = journal_file_calls();
        done = errand_wait(committer->work, clock_deadline_ns(patience_ms));
    } while (!done && calls != journal_file_calls());
    return done;
}

enum error committer_finish(struct committer *committer)
{
    atomic_store(&committer->finishes, true);
    if (end_work(committer))
        return error_restore(&committer->outcome);
    return error_set(
        ERROR_TIMEOUT,
        "cannot write the state: the disk has not answered for %d s, and is not waited "
        "for; what was answered is kept",
        END_MS / 1000);
}

bool committer_free(struct committer *committer)
{
    if (!committer)
        return true;
    if (!end_work(committer))
        return false;
    end_watch(committer);
    release(committer);
    return true;
}
