/* SPDX-License-Identifier: MIT */
/*
 * Group commit, the watermark, retries after disk failures; journal_work() chooses among them.
 *
 *     LSN   0 ... synced ........ written ........ end
 *           on the disk | in the file | in `pending`
 *
 * synced <= written <= end always. DURABILITY_FSYNC: a commit takes `pending` (the two buffers are
 * swapped, so that appending never waits for the disk), writes and syncs it without the mutex, and
 * advances written and synced to the `end` at which it began. Waiters are taken together with
 * `pending`: everything they wait for is in it or before it. DURABILITY_PROCESS: written == end as
 * long as entries go straight into the file's pages; where they cannot, they are pending, and a
 * commit only writes; synced moves with a compaction and at the end.
 *
 * Any system call may hang, so none is made with the mutex held: journal_waiters.c.
 */
#include <errno.h>

#include "common/clock.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"
#include "sampler/journal/state_folder.h"

#define GROUP_WAIT_MOST_NS 2000000
#define YIELD_MOST_NS 10000000
#define FINISH_RETRIES 4 /* of writing what only memory may have */

static void count_sync(struct journal *journal, int64_t nanoseconds)
{
    static const int64_t bounds_us[] = JOURNAL_SYNC_BOUNDS_US;
    size_t bucket = 0;
    while (bucket < JOURNAL_SYNC_BUCKETS - 1 && nanoseconds > bounds_us[bucket] * 1000)
        bucket++;
    journal->counts.commits++;
    journal->counts.sync_buckets[bucket]++;
    journal->counts.sync_seconds += (double)nanoseconds / 1e9;
    journal->sync_mean_ns += (nanoseconds - journal->sync_mean_ns) / 8;
}

/* ---- the commit --------------------------------------------------------- */

/* Allocates `bytes` of the file. The mutex is held before and after, but not during disk I/O:
 * appends continue. */
static enum error make_room(struct journal *journal, uint64_t bytes)
{
    struct journal_file *file = &journal->file;
    uint64_t ready = file->ready;
    pthread_mutex_unlock(journal->owner.mutex);
    enum error error = journal_file_prepare(file, bytes, journal->maps);
    if (!error && journal->durability == DURABILITY_PROCESS && ready < file->ready)
        (void)journal_write_watermark(journal, journal->synced, file->ready, false);
    pthread_mutex_lock(journal->owner.mutex);
    if (!error)
        error = journal_file_grow(file, bytes, journal->maps);
    error_report_take(error, &journal->growth_failure);
    journal->growth_ns = clock_now_ns() + (error ? INT64_C(1000000) * JOURNAL_RETRY_MS : 0);
    pthread_cond_broadcast(&journal->grown);
    return error;
}

/* For everything pending. The mutex is held before and after, but not during disk I/O. */
static enum error make_room_for_group(struct journal *journal)
{
    enum error error = OK;
    uint64_t end = journal_file_offset(&journal->file, journal->end);
    while (!error && journal->pending.length > 0 && end > journal->file.room) {
        error = make_room(journal, end);
        end = journal_file_offset(&journal->file, journal->end);
    }
    return error;
}

/* Checks the ownership of the folder last: a start takes the folder over before it reads the file,
 * so it has everything that this check finds to be ours (RECOVERY.md). */
static enum error write_group(const struct journal *journal)
{
    const struct journal_bytes *group = &journal->group;
    bool syncs = journal->durability == DURABILITY_FSYNC;
    uint64_t offset = journal_file_offset(&journal->file, journal->written);
    if (group->length == 0)
        return OK;
    enum error error = journal_file_write(&journal->file, group->bytes, group->length, offset);
    if (!error && syncs)
        error = journal_file_sync(&journal->file);
    if (!error && syncs)
        error = state_confirm(journal->state);
    return error;
}

/* Answers waiters up to `end`. The mutex is held before and after, but not meanwhile. */
static void answer_group(struct journal *journal, uint64_t end, uint64_t room, int64_t took_ns)
{
    struct journal_waiter *waiters = journal->committing;
    journal->committing = NULL;
    journal->answers++;
    journal->written = end;
    journal_retire_group(journal);
    if (journal->durability == DURABILITY_FSYNC) {
        journal->synced = end;
        journal->synced_room = room;
        count_sync(journal, took_ns);
    }
    pthread_mutex_unlock(journal->owner.mutex);
    journal_answer(waiters, OK);
    pthread_mutex_lock(journal->owner.mutex);
}

/* Did journal_watch() give up on it? At the end, the condition alone does not say so. */
static bool is_given_up(const struct journal *journal)
{
    return journal->condition == JOURNAL_FAILING || journal->undoing;
}

/* The mutex is held before and after, but not meanwhile. */
static enum error commit(struct journal *journal)
{
    enum error error = make_room_for_group(journal);
    if (!error && !is_given_up(journal)) {
        uint64_t end = journal->end;
        uint64_t room = journal->file.room;
        journal->group = journal->pending;
        journal->pending = journal->spare;
        journal->spare = (struct journal_bytes){0};
        journal->pending.length = 0;
        journal->committing = journal_take_waiters(journal);
        pthread_mutex_unlock(journal->owner.mutex);

        int64_t started_ns = clock_now_ns();
        error = write_group(journal);
        int64_t took_ns = clock_now_ns() - started_ns;

        pthread_mutex_lock(journal->owner.mutex);
        if (!error && !is_given_up(journal))
            answer_group(journal, end, room, took_ns);
    }
    if (is_given_up(journal))
        return error_restore(&journal->failure);
    if (!error)
        return OK;
    journal_fail(journal, error);
    return error_restore(&journal->failure);
}

/* Clients that were just answered return soon: waiting for them merges two groups into one. Waits
 * at most four times the disk's latency, and 2 ms. */
static void wait_for_group(struct journal *journal)
{
    int64_t most_ns = 4 * journal->sync_mean_ns;
    if (most_ns > GROUP_WAIT_MOST_NS)
        most_ns = GROUP_WAIT_MOST_NS;
    if (journal->waiting >= journal->answered || most_ns <= 0 || journal->woken)
        return;
    struct timespec deadline = clock_timespec(clock_now_ns() + most_ns);
    journal->target = journal->answered;
    journal->sleeps = true;
    (void)pthread_cond_clockwait(&journal->changed, journal->owner.mutex, CLOCK_MONOTONIC,
                                 &deadline);
    journal->sleeps = false;
}

static bool has_commit(const struct journal *journal)
{
    return journal->condition != JOURNAL_FAILING &&
           (journal->waiters || journal_kept(journal) < journal->end);
}

static bool may_retry(const struct journal *journal)
{
    return journal_failing(journal) && clock_now_ns() >= journal->retry_ns;
}

/* Does the watermark lag behind what is on the disk, and was not written just now? */
static bool watermark_is_behind(const struct journal *journal)
{
    return journal->durability == DURABILITY_FSYNC && !journal_failing(journal) &&
           (journal->synced > journal->watermark.whole ||
            journal->synced_room > journal->watermark.length);
}

static int64_t watermark_due_ns(const struct journal *journal)
{
    return journal->watermark_ns + INT64_C(1000000) * JOURNAL_WATERMARK_MS;
}

static bool may_grow(const struct journal *journal)
{
    bool is_wanted = journal->condition == JOURNAL_RUNNING && journal->wanted > journal->file.room;
    return (is_wanted || journal_wants_room(journal)) && clock_now_ns() >= journal->growth_ns;
}

static bool has_work(const struct journal *journal)
{
    if (watermark_is_behind(journal) && clock_now_ns() >= watermark_due_ns(journal))
        return true;
    if (journal_failing(journal))
        return may_retry(journal) || has_commit(journal);
    return has_commit(journal) || journal_wants_rewrite(journal) || may_grow(journal);
}

static void sleep_until_work(struct journal *journal, int64_t deadline_ns)
{
    if (journal_failing(journal) && journal->retry_ns < deadline_ns)
        deadline_ns = journal->retry_ns;
    if (watermark_is_behind(journal) && watermark_due_ns(journal) < deadline_ns)
        deadline_ns = watermark_due_ns(journal);
    struct timespec deadline = clock_timespec(deadline_ns);
    while (!has_work(journal) && !journal->woken) {
        journal->target = 1;
        journal->sleeps = true;
        int error = pthread_cond_clockwait(&journal->changed, journal->owner.mutex, CLOCK_MONOTONIC,
                                           &deadline);
        journal->sleeps = false;
        if (error == ETIMEDOUT)
            break;
    }
}

/* Grows the file by the next piece. The mutex is held before and after, but not during disk I/O. */
static enum error grow_ahead(struct journal *journal)
{
    uint64_t wanted = journal->wanted;
    uint64_t next = journal->file.room + 1;
    journal->wanted = 0;
    return make_room(journal, wanted > next ? wanted : next);
}

/* Retries after a disk failure. While the ledgers are written there are no waiters for whom they
 * would have to be undone. The mutex is held before and after. */
static void retry(struct journal *journal)
{
    enum error error = OK;
    enum journal_condition before = journal->condition;
    journal->retry_ns = clock_now_ns() + INT64_C(1000000) * JOURNAL_RETRY_MS;
    pthread_mutex_unlock(journal->owner.mutex);
    if (before == JOURNAL_FAILING)
        error = journal_rewrite_whole(journal);
    else
        journal_rewrite_abandon(journal); /* it may be what uses the space */
    pthread_mutex_lock(journal->owner.mutex);
    if (before == JOURNAL_FULL)
        error = grow_ahead(journal);
    if (journal->condition != before)
        return; /* journal_watch() gave up meanwhile */
    if (!error)
        journal_note_success(journal);
    else
        journal_note_failure(journal, error, before);
}

/* What was stored since is undone with its waiters: it is in no file. The mutex is held. */
static void note_lost_map(struct journal *journal)
{
    if (!journal->map_lost || journal->condition == JOURNAL_FAILING)
        return;
    journal_fail(journal, error_set(ERROR_IO,
                                    "the state %s was cut while it was in use, or its disk has no "
                                    "room for it",
                                    journal->path));
    journal->retry_ns = clock_now_ns();
}

/* The urgent work: a commit, and the watermark. False: nothing was committed. */
static bool attend(struct journal *journal, bool stopping)
{
    pthread_mutex_lock(journal->owner.mutex);
    note_lost_map(journal);
    bool found = has_commit(journal);
    if (found) {
        if (!stopping)
            wait_for_group(journal);
        if (has_commit(journal) && commit(journal))
            journal->retry_ns = clock_now_ns(); /* at once: a start must not find what was undone */
    }
    bool due =
        !stopping && watermark_is_behind(journal) && clock_now_ns() >= watermark_due_ns(journal);
    uint64_t synced = journal->synced;
    uint64_t synced_room = journal->synced_room;
    pthread_mutex_unlock(journal->owner.mutex);
    if (due) /* if it fails, the previous one claims less and is still true */
        (void)journal_write_watermark(journal, synced, synced_room, false);
    return found;
}

/* Yields processor and disk to others: for as long as the last piece took, or until there are
 * waiters. Not if more is appended meanwhile than is compacted, so that compaction catches up. */
static void give_way(struct journal *journal, int64_t deadline_ns)
{
    int64_t now_ns = clock_now_ns();
    int64_t until_ns = now_ns + (now_ns - journal->rewrite.worked_ns);
    if (until_ns > now_ns + YIELD_MOST_NS)
        until_ns = now_ns + YIELD_MOST_NS;
    struct timespec until = clock_timespec(until_ns < deadline_ns ? until_ns : deadline_ns);
    pthread_mutex_lock(journal->owner.mutex);
    bool hurries = journal->end - journal->rewrite.start > JOURNAL_LONG_BYTES;
    int error = 0;
    while (!hurries && error != ETIMEDOUT && !journal->waiters && !journal->woken) {
        journal->target = 1;
        journal->sleeps = true;
        error = pthread_cond_clockwait(&journal->changed, journal->owner.mutex, CLOCK_MONOTONIC,
                                       &until);
        journal->sleeps = false;
    }
    pthread_mutex_unlock(journal->owner.mutex);
}

/* For journal_rewrite_step(). What arrived meanwhile is committed before the next piece. */
static enum error yield(struct journal *journal)
{
    give_way(journal, INT64_MAX);
    pthread_mutex_lock(journal->owner.mutex);
    bool ends = journal->woken || journal_failing(journal);
    pthread_mutex_unlock(journal->owner.mutex);
    if (!ends)
        (void)attend(journal, false);
    pthread_mutex_lock(journal->owner.mutex);
    ends = ends || journal_failing(journal);
    pthread_mutex_unlock(journal->owner.mutex);
    journal->rewrite.worked_ns = clock_now_ns();
    return ends ? ERROR_CANCELLED : OK;
}

/* Without its file the ledgers are complete, but a start would not find them: writes them at once.
 * JOURNAL_MEMORY writes a new file at the end anyway. */
static void look_at_file(struct journal *journal)
{
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(journal->owner.mutex);
    bool is_used = journal->condition == JOURNAL_RUNNING;
    pthread_mutex_unlock(journal->owner.mutex);
    if (!is_used || now_ns < journal->look_ns)
        return;
    journal->look_ns = now_ns + INT64_C(1000000) * JOURNAL_LOOK_MS;
    if (journal_file_is_there(&journal->file))
        return;
    enum error error =
        error_set(ERROR_IO, "the state %s was removed, replaced or truncated while it was in use",
                  journal->path);
    pthread_mutex_lock(journal->owner.mutex);
    journal_fail(journal, error);
    pthread_mutex_unlock(journal->owner.mutex);
}

bool journal_work(struct journal *journal, int64_t deadline_ns, bool stopping)
{
    pthread_mutex_lock(journal->owner.mutex);
    if (!stopping)
        sleep_until_work(journal, deadline_ns);
    if (may_retry(journal) && !stopping)
        retry(journal);
    journal->woken = false;
    pthread_mutex_unlock(journal->owner.mutex);
    bool found = attend(journal, stopping);
    if (!stopping)
        look_at_file(journal);
    pthread_mutex_lock(journal->owner.mutex);
    if (!stopping && may_grow(journal) && grow_ahead(journal))
        log_debug("%s", error_message()); /* an append without room reports it */
    bool rewrites = !stopping && !journal_failing(journal) && journal_wants_rewrite(journal);
    pthread_mutex_unlock(journal->owner.mutex);
    if (rewrites) {
        journal_rewrite_step(journal, yield);
        give_way(journal, deadline_ns);
    }
    return found;
}

void journal_wake(struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    journal->woken = true;
    pthread_cond_signal(&journal->changed);
    pthread_mutex_unlock(journal->owner.mutex);
}

/* Everything appended is in the file, and the file on the disk: nothing is written concurrently. */
static enum error sync_file(struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    enum error error = has_commit(journal) ? commit(journal) : OK;
    bool is_behind = journal->synced < journal->end;
    pthread_mutex_unlock(journal->owner.mutex);
    if (error || !is_behind)
        return error;
    error = journal_file_sync(&journal->file);
    pthread_mutex_lock(journal->owner.mutex);
    if (!error) {
        journal->synced = journal->end;
        journal->synced_room = journal->file.length;
    }
    pthread_mutex_unlock(journal->owner.mutex);
    return error;
}

/* Everything up to the watermark must be on the disk before it is written, which is slow on a slow
 * disk. */
static enum error close_file(struct journal *journal)
{
    enum error error = sync_file(journal);
    if (!error)
        error = journal_write_watermark(journal, journal->end, journal->synced_room, true);
    return error ? error : journal_file_sync(&journal->file);
}

/* Is memory right, but not the file? */
static bool needs_whole(const struct journal *journal)
{
    return journal->condition == JOURNAL_MEMORY || journal->condition == JOURNAL_FAILING;
}

enum error journal_finish(struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    bool whole = needs_whole(journal);
    journal_turn(journal, JOURNAL_FINISHED);
    pthread_mutex_unlock(journal->owner.mutex);
    enum error error = whole ? journal_rewrite_whole(journal) : close_file(journal);
    for (int tries = 0; error && tries < FINISH_RETRIES; tries++) {
        clock_sleep_ms(JOURNAL_RETRY_MS);
        error = journal_rewrite_whole(journal);
    }
    return error ? error : state_check(journal->state);
}
