/* SPDX-License-Identifier: MIT */
/*
 * Reads the live file again while it grows, into separate ledgers, as a start would. Draws do not
 * wait, since none of their state is read; the result is as right as a start's, because it is the
 * same code.
 *
 * Only bytes before `end` are read, which was `written` when the compaction began: they never
 * change. Every record is checked as at a start, so a corrupted file is detected while the live
 * ledgers can still be saved.
 *
 * After a failed commit it is read as far as changes are kept (journal_kept()), to revert what the
 * owner cannot undo itself.
 */
#include <inttypes.h>

#include "common/file.h"
#include "sampler/journal/journal_private.h"

#define WINDOW_BYTES ((size_t)32 << 10)

enum error journal_reread_begin(struct journal *journal, struct journal_reread *reread)
{
    journal_reread_release(journal, reread);
    reread->at = JOURNAL_HEADER_BYTES;
    return journal->owner.ledgers_new(&reread->ledgers);
}

void journal_reread_release(struct journal *journal, struct journal_reread *reread)
{
    if (reread->ledgers)
        journal->owner.ledgers_free(reread->ledgers);
    journal_bytes_release(&reread->window);
    entry_numbers_release(&reread->numbers);
    *reread = (struct journal_reread){0};
}

/* Reads from `at` on at least `wanted` bytes, none beyond `end`. */
static enum error fill_window(struct journal *journal, struct journal_reread *reread, uint64_t end,
                              size_t wanted)
{
    struct journal_bytes *window = &reread->window;
    size_t length = wanted > WINDOW_BYTES ? wanted : WINDOW_BYTES;
    if (length > end - reread->at)
        length = (size_t)(end - reread->at);
    window->length = 0;
    enum error error = journal_bytes_reserve(window, length);
    if (!error)
        error = file_read_at(journal->file.descriptor, journal->file.path, window->bytes, length,
                             reread->at);
    if (!error)
        window->length = length;
    return error;
}

static enum error refuse(const struct journal *journal, const struct journal_reread *reread)
{
    return error_set(ERROR_INPUT,
                     "the entry at byte %" PRIu64 " of the state %s is not what was written there",
                     reread->at, journal->file.path);
}

static enum error take_record(struct journal *journal, struct journal_reread *reread,
                              const uint8_t *record, size_t length)
{
    struct entry entry;
    size_t entry_bytes;
    uint64_t lsn = reread->at + (uint64_t)journal->file.shift;
    if (!journal_record_is_sound(record, length, journal->id, lsn, &entry_bytes))
        return refuse(journal, reread);
    enum error error =
        entry_decode(record + JOURNAL_RECORD_HEAD_BYTES, entry_bytes, &reread->numbers, &entry);
    if (!error)
        error = journal->owner.replay(reread->ledgers, &entry);
    if (!error)
        reread->at += journal_record_bytes(entry_bytes);
    return error;
}

/* Applies all complete records in the window. *ret_wanted: size of the next one. */
static enum error take_window(struct journal *journal, struct journal_reread *reread,
                              size_t *ret_wanted)
{
    const struct journal_bytes *window = &reread->window;
    for (size_t at = 0;;) {
        size_t left = window->length - at;
        const uint8_t *record = window->bytes + at;
        size_t wanted = left < JOURNAL_RECORD_HEAD_BYTES ? JOURNAL_RECORD_HEAD_BYTES
                                                         : journal_record_length(record);
        *ret_wanted = wanted;
        if (wanted > left)
            return OK;
        enum error error = take_record(journal, reread, record, left);
        if (error)
            return error;
        at += wanted;
    }
}

enum error journal_reread_some(struct journal *journal, struct journal_reread *reread, uint64_t end,
                               uint64_t most)
{
    uint64_t begin = reread->at;
    size_t wanted = 0;
    enum error error = OK;
    while (!error && reread->at < end && reread->at - begin < most) {
        if (wanted > end - reread->at)
            return refuse(journal, reread);
        error = fill_window(journal, reread, end, wanted);
        if (!error)
            error = take_window(journal, reread, &wanted);
    }
    return error;
}

enum error journal_read_back(struct journal *journal)
{
    struct journal_reread reread = {0};
    pthread_mutex_lock(journal->owner.mutex);
    bool is_ahead = journal->is_ahead;
    uint64_t end = journal_file_offset(&journal->file, journal_kept(journal));
    pthread_mutex_unlock(journal->owner.mutex);
    if (!is_ahead)
        return OK;
    enum error error = journal_reread_begin(journal, &reread);
    if (!error)
        error = journal_reread_some(journal, &reread, end, UINT64_MAX);
    if (!error) {
        journal->owner.take_back(journal->owner.ledgers, reread.ledgers);
        pthread_mutex_lock(journal->owner.mutex);
        journal->is_ahead = false;
        pthread_mutex_unlock(journal->owner.mutex);
    }
    journal_reread_release(journal, &reread);
    return error;
}
