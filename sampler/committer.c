#include "sampler/committer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"

#define IDLE_MS 1000
#define RETRY_MS 250

struct committer {
    struct stream *stream;
    pthread_t thread;
    _Atomic bool stopping;
};

static void *run(void *context)
{
    struct committer *committer = context;
    struct stream_commit commit;
    int failures = 0;
    for (;;) {
        bool stopping = atomic_load(&committer->stopping);
        if (!stream_commit_begin(committer->stream, clock_deadline_ns(IDLE_MS), &commit)) {
            if (stopping)
                break; /* asked before the last look: nothing can have come since */
            continue;
        }
        enum error error = stream_commit_end(committer->stream, &commit);
        if (error != OK && stopping)
            break;
        /* The first failure is followed at once by the record that was taken back: whatever the
         * refused write left in its slot must not be found by a start after a crash. */
        if (error != OK && failures > 0)
            clock_sleep_ms(RETRY_MS);
        failures = error == OK ? 0 : failures + 1;
    }
    return NULL;
}

enum error committer_new(struct stream *stream, struct committer **ret_committer)
{
    struct committer *committer = array_new(1, sizeof(*committer), "the committer");
    if (!committer)
        return ERROR_MEMORY;
    committer->stream = stream;
    int error = pthread_create(&committer->thread, NULL, run, committer);
    if (error != 0) {
        free(committer);
        return error_set_errno(ERROR_MEMORY, error, "cannot start the committer's thread");
    }
    *ret_committer = committer;
    return OK;
}

void committer_free(struct committer *committer)
{
    if (!committer)
        return;
    atomic_store(&committer->stopping, true);
    stream_commit_wake(committer->stream);
    pthread_join(committer->thread, NULL);
    free(committer);
}
