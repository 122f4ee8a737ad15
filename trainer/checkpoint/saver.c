/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/saver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#define RETRY_MS 30000 /* at most */
#define LONG_MS 5000   /* a save that takes longer is logged */
#define AGAIN_MS 30000 /* and logged again this often */

struct saver {
    struct logdir *logdir;
    pthread_t thread;
    struct checkpoint_snapshot *snapshot; /* NULL: not busy */
    struct checkpoint_snapshot *best;     /* NULL: none */
    int64_t start_ns, warn_ns;            /* of this save; when to log it as slow */
    _Atomic bool done;                    /* the thread has finished; see `report` */
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
    struct error_report kept; /* the caller's own error must be kept */
    error_report_take(OK, &kept);
    if (saver && saver_finish(saver, &step))
        log_error("step %lld was not saved: %s", (long long)step, error_message());
    (void)error_restore(&kept);
    if (saver)
        checkpoint_snapshot_free(saver->best);
    free(saver);
}

bool saver_is_busy(const struct saver *saver)
{
    return saver->snapshot != NULL;
}

/* A hung file server usually comes back: only a signal ends the wait (logdir.h). */
static void warn_if_long(struct saver *saver)
{
    int64_t now_ns = clock_now_ns();
    if (now_ns < saver->warn_ns)
        return;
    saver->warn_ns = now_ns + AGAIN_MS * INT64_C(1000000);
    log_warning("step %lld is not saved after %lld s: the logdir's disk is slow or does not "
                "answer; to end the trainer now leaves the checkpoint before",
                (long long)checkpoint_snapshot_step(saver->snapshot),
                (long long)((now_ns - saver->start_ns) / 1000000000));
}

bool saver_is_done(struct saver *saver)
{
    if (!saver->snapshot)
        return false;
    bool is_done = atomic_load_explicit(&saver->done, memory_order_acquire);
    if (!is_done)
        warn_if_long(saver);
    return is_done;
}

static void *write_snapshot(void *context)
{
    struct saver *saver = context;
    enum error error = saver->best ? logdir_save_best(saver->logdir, saver->best) : OK;
    if (!error)
        error = logdir_save(saver->logdir, saver->snapshot);
    /* A folder that is gone is a disk that failed, and no bad input of the user's. */
    error_report_take(error == ERROR_NOT_FOUND ? ERROR_IO : error, &saver->report);
    atomic_store_explicit(&saver->done, true, memory_order_release);
    return NULL;
}

enum error saver_start(struct saver *saver, struct checkpoint_snapshot *snapshot)
{
    saver->snapshot = snapshot;
    saver->start_ns = clock_now_ns();
    saver->warn_ns = clock_deadline_ns(LONG_MS);
    atomic_store(&saver->done, false);
    enum error error = thread_start("saver", write_snapshot, saver, &saver->thread);
    if (error) {
        checkpoint_snapshot_free(snapshot);
        saver->snapshot = NULL;
    }
    return error;
}

void saver_add_best(struct saver *saver, struct checkpoint_snapshot *best)
{
    saver->best = best;
}

struct checkpoint_snapshot *saver_take_best(struct saver *saver)
{
    struct checkpoint_snapshot *best = saver->best;
    saver->best = NULL;
    return best;
}

enum error saver_finish(struct saver *saver, int64_t *ret_step)
{
    *ret_step = -1;
    if (!saver->snapshot)
        return OK;
    while (!saver_is_done(saver))
        clock_sleep_ms(1);
    pthread_join(saver->thread, NULL);
    *ret_step = checkpoint_snapshot_step(saver->snapshot);
    checkpoint_snapshot_free(saver->snapshot);
    saver->snapshot = NULL;
    enum error error = error_restore(&saver->report);
    if (!error)
        checkpoint_snapshot_free(saver_take_best(saver));
    return error;
}

int64_t saver_retry_ns(int64_t save_ms)
{
    return clock_deadline_ns(save_ms > 0 && save_ms < RETRY_MS ? save_ms : RETRY_MS);
}
