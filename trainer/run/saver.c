/* SPDX-License-Identifier: MIT */
#include "trainer/run/saver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/log.h"
#include "common/thread.h"

struct saver {
    struct logdir *logdir;
    pthread_t thread;
    struct checkpoint_snapshot *snapshot; /* NULL: not busy */
    _Atomic bool done;                    /* the thread is through; see `report` */
    struct error_report report;
};

enum error saver_open(struct logdir *logdir, struct saver **ret_saver)
{
    struct saver *saver = array_new(1, sizeof(*saver), "a saver");
    if (!saver)
        return ERROR_MEMORY;
    saver->logdir = logdir;
    *ret_saver = saver;
    return OK;
}

void saver_close(struct saver *saver)
{
    int64_t step;
    if (saver && saver_finish(saver, &step))
        log_error("step %lld was not saved: %s", (long long)step, error_message());
    free(saver);
}

bool saver_is_busy(const struct saver *saver)
{
    return saver->snapshot != NULL;
}

bool saver_is_done(const struct saver *saver)
{
    return saver->snapshot && atomic_load_explicit(&saver->done, memory_order_acquire);
}

static void *write_snapshot(void *context)
{
    struct saver *saver = context;
    error_report_take(logdir_save(saver->logdir, saver->snapshot), &saver->report);
    atomic_store_explicit(&saver->done, true, memory_order_release);
    return NULL;
}

enum error saver_start(struct saver *saver, struct checkpoint_snapshot *snapshot)
{
    saver->snapshot = snapshot;
    atomic_store(&saver->done, false);
    enum error error = thread_start("saver", write_snapshot, saver, &saver->thread);
    if (error) {
        checkpoint_snapshot_free(snapshot);
        saver->snapshot = NULL;
    }
    return error;
}

enum error saver_finish(struct saver *saver, int64_t *ret_step)
{
    *ret_step = -1;
    if (!saver->snapshot)
        return OK;
    pthread_join(saver->thread, NULL);
    *ret_step = checkpoint_snapshot_step(saver->snapshot);
    checkpoint_snapshot_free(saver->snapshot);
    saver->snapshot = NULL;
    return error_restore(&saver->report);
}
