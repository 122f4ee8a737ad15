/* SPDX-License-Identifier: MIT */
#include "sampler/journal/committer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/thread.h"

#define IDLE_MS 1000

struct committer {
    struct journal *journal;
    pthread_t thread;
    _Atomic bool stopping;
};

static void *run(void *context)
{
    struct committer *committer = context;
    for (;;) { /* journal_work() sleeps until there is something to do */
        bool stopping = atomic_load(&committer->stopping);
        bool worked = journal_work(committer->journal, clock_deadline_ns(IDLE_MS), stopping);
        if (stopping && !worked)
            return NULL; /* asked before the last look: nothing can have come since */
    }
}

enum error committer_new(struct journal *journal, struct committer **ret_committer)
{
    struct committer *committer = array_new(1, sizeof(*committer), "the committer");
    if (!committer)
        return ERROR_MEMORY;
    committer->journal = journal;
    enum error error = thread_start("journal", run, committer, &committer->thread);
    if (!error)
        *ret_committer = committer;
    else
        free(committer);
    return error;
}

void committer_free(struct committer *committer)
{
    if (!committer)
        return;
    atomic_store(&committer->stopping, true);
    journal_wake(committer->journal);
    pthread_join(committer->thread, NULL);
    free(committer);
}
