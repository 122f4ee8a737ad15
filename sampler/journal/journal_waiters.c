/* SPDX-License-Identifier: MIT */
/*
 * Waiters: takes and answers them, and undoes and refuses their changes if these could not be kept,
 * or the disk does not respond.
 *
 * A refused change is removed from the ledgers first, under the mutex; then from the file; then its
 * waiter is answered, so that a start after a kill finds no refused change. The steps are the same
 * whether the committer saw a call fail, or journal_watch() saw that it does not return. In the
 * latter case the committer may still be in that call, where it does three things: it reads the
 * bytes of `group`, which are being zeroed meanwhile; it uses the file, which it does not replace
 * before the errand that repairs it has ended (journal_await_undo()); and after it returns it
 * checks whether it was given up: the condition is FAILING or, at the end, there is an errand.
 */
#include "common/errand.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"

struct journal_waiter *journal_take_waiters(struct journal *journal)
{
    struct journal_waiter *waiters = journal->waiters;
    journal->waiters = NULL;
    journal->waiters_end = &journal->waiters;
    journal->answered = journal->waiting;
    journal->waiting = 0;
    return waiters;
}

void journal_answer(struct journal_waiter *waiter, enum error error)
{
    while (waiter) {
        struct journal_waiter *next = waiter->next; /* ready() returns the storage to its owner */
        waiter->error = error;
        waiter->ready(waiter);
        waiter = next;
    }
}

/* ---- what could not be kept --------------------------------------------- */

static struct journal_waiter *reversed(struct journal_waiter *waiter)
{
    struct journal_waiter *last = NULL;
    while (waiter) {
        struct journal_waiter *next = waiter->next;
        waiter->next = last;
        last = waiter;
        waiter = next;
    }
    return last;
}

/* No response has reported the changes of these waiters: the commit's, and later ones. Undoes them,
 * newest first, and marks them to be refused. The mutex is held. */
static void undo_waiters(struct journal *journal)
{
    struct journal_waiter **end = &journal->committing;
    while (*end)
        end = &(*end)->next;
    *end = journal_take_waiters(journal);
    struct journal_waiter *newest = reversed(journal->committing);
    for (struct journal_waiter *waiter = newest; waiter; waiter = waiter->next) {
        if (!journal->owner.undo(journal->owner.ledgers, waiter))
            journal->is_ahead = true;
    }
    journal->committing = NULL;
    journal->refused = reversed(newest);
    journal->pending.length = 0;
}

/* The kernel may be reading them, for a pwrite() that hangs: it then writes zeros. */
__attribute__((no_sanitize_thread)) static void clear_group(struct journal *journal)
{
    volatile uint8_t *bytes = journal->group.bytes;
    for (size_t i = 0; i < journal->group.length; i++)
        bytes[i] = 0;
}

/* Records that could not be synced may still be in the file, and the process may be killed before
 * it is replaced: a start would then count refused draws as drawn. Zeros end the records before
 * them; the last page is zeroed first, so that no record is left after zeros. */
static enum error erase_group(const struct journal *journal)
{
    static const uint8_t zeros[JOURNAL_PAGE_BYTES];
    uint64_t begin = journal_file_offset(&journal->file, journal->written);
    uint64_t end = begin + journal->group.length;
    enum error error = OK;
    while (end > begin && !error) {
        uint64_t page = (end - 1) / sizeof(zeros) * sizeof(zeros);
        uint64_t from = page > begin ? page : begin;
        error = journal_file_write(&journal->file, zeros, (size_t)(end - from), from);
        end = from;
    }
    return error;
}

/* Called by whichever comes first: the thread that undid the changes, or journal_watch(). Answers
 * the waiters with the reason. */
static void answer_refused(struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    struct journal_waiter *waiters = journal->refused;
    enum error error = journal->failure.code;
    journal->refused = NULL;
    journal->answers++;
    pthread_mutex_unlock(journal->owner.mutex);
    journal_answer(waiters, error);
}

/* Removes refused changes from the file before anyone is answered. The mutex is not held. */
static void undo_in_file(void *context)
{
    struct journal *journal = context;
    if (erase_group(journal))
        log_error("%s; if the process is killed before it can be written, what is refused now may "
                  "be skipped after the next start",
                  error_message());
    if (journal_read_back(journal))
        log_error("%s; seeks and restores that were refused are undone when it can be read",
                  error_message());
    answer_refused(journal);
}

void journal_retire_group(struct journal *journal)
{
    if (journal->group.bytes)
        journal->spare = journal->group;
    journal->group = (struct journal_bytes){0};
}

void journal_fail(struct journal *journal, enum error error)
{
    bool has_failed = journal->condition == JOURNAL_FAILING;
    journal_note_failure(journal, error, JOURNAL_FAILING);
    if (has_failed)
        return; /* journal_watch() gave up meanwhile: its errand answers those that were refused */
    undo_waiters(journal);
    pthread_mutex_unlock(journal->owner.mutex);
    undo_in_file(journal);
    pthread_mutex_lock(journal->owner.mutex);
    journal_retire_group(journal);
}

void journal_await_undo(struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    struct errand *undoing = journal->undoing;
    journal->undoing = NULL;
    pthread_mutex_unlock(journal->owner.mutex);
    if (undoing)
        (void)errand_wait(undoing, INT64_MAX);
    errand_leave(undoing);
    pthread_mutex_lock(journal->owner.mutex);
    journal_retire_group(journal);
    pthread_mutex_unlock(journal->owner.mutex);
}

/* The committer is blocked in a system call for an unknown time. Treats its work as failed; it
 * notices that when it returns, and writes a new file. An errand repairs the file, since that may
 * hang too. False: there is none. The mutex is held. */
static bool give_up(struct journal *journal)
{
    enum error error =
        error_set(ERROR_IO, "cannot write the state %s: the disk has not answered for %d s",
                  journal->path, JOURNAL_PATIENCE_MS / 1000);
    journal_note_failure(journal, error, JOURNAL_FAILING);
    undo_waiters(journal);
    clear_group(journal);
    error = errand_new(undo_in_file, NULL, journal, &journal->undoing);
    if (!error)
        error = errand_start(journal->undoing, "journal undo");
    if (error)
        log_error("%s", error_message());
    return !error;
}

void journal_watch(struct journal *journal, int64_t now_ns)
{
    pthread_mutex_lock(journal->owner.mutex);
    bool is_open = journal->committing || journal->waiters;
    if (journal->watched_answers != journal->answers || !(is_open || journal->refused)) {
        journal->watched_answers = journal->answers;
        journal->watched_ns = now_ns;
    }
    bool is_due = now_ns - journal->watched_ns >= INT64_C(1000000) * JOURNAL_PATIENCE_MS;
    if (is_due && is_open) {
        is_due = !give_up(journal);
        journal->watched_ns = now_ns - INT64_C(1000000) * (JOURNAL_PATIENCE_MS - JOURNAL_UNDO_MS);
    }
    pthread_mutex_unlock(journal->owner.mutex);
    if (!is_due)
        return;
    log_error("the disk does not take back what was written, either; if the process is killed "
              "before it answers, what is refused now may be skipped after the next start");
    answer_refused(journal);
}
