/* SPDX-License-Identifier: MIT */
/*
 * Compaction: writes the ledgers as of LSN `start` to DIR/journal.new.MARK, then the records
 * appended since, then renames it. Until the rename the old file is the journal; after it the new
 * one, with everything that the old one had on the disk.
 *
 *     old file   header | records .............. start | records since ..... written
 *                         read into ledgers, listed      copied as they are
 *     new file   header | entries of the ledgers | start | the same bytes ... copied
 *
 * LSNs continue: the new file's shift is chosen so that its records from `start` on have the same
 * LSNs, and therefore checksums, as in the old one. So they can be copied unread.
 *
 * Why it does not disturb draws: the ledgers come from the old file (journal_reread.c), so listing
 * them does not stop draws; every phase but listing can be suspended after 32 to 256 KiB, and
 * listing yields in between; each piece is synced before the next one is written, so a commit's
 * fdatasync() never has to wait for a megabyte of ours. Copying doubles its pieces and so overtakes
 * any rate of appending. While the last records are copied and the file is renamed, about 30 us,
 * entries wait in memory; no disk I/O happens with the mutex held.
 *
 * Invariants: the old file's bytes before `written` never change; start <= copied <= written; the
 * new file gets its header once everything that the header calls whole is in it; a failure before
 * the rename unlinks the new file, and the old one stays in use. A rename that fails may have
 * happened, as on NFS when a response is lost: the old file stays in use only if it has the name.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"
#include "sampler/journal/state_folder.h"

#define PIECE_BYTES ((size_t)256 << 10)  /* per copy or write */
#define ENTRIES_BYTES ((size_t)32 << 10) /* per read or list, which costs more */
#define ROOM_BYTES ((uint64_t)64 << 10)  /* for entries that arrive during the switch */
#define DISPOSE_BYTES ((uint64_t)4 << 20)

bool journal_wants_rewrite(const struct journal *journal)
{
    return journal->rewrite.phase != REWRITE_NONE ||
           (journal->durability != DURABILITY_NONE &&
            (journal->end >= journal->rewrite_at || clock_now_ns() >= journal->rewrite_ns));
}

void journal_rewrite_abandon(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    if (rewrite->phase == REWRITE_NONE)
        return;
    if (rewrite->phase != REWRITE_DISPOSE && rewrite->file.descriptor >= 0)
        (void)unlink(journal->new_path);
    journal_file_close(&rewrite->file);
    journal_reread_release(journal, &rewrite->reread);
    journal_bytes_release(&rewrite->records);
    pthread_mutex_lock(journal->owner.mutex);
    if (rewrite->phase != REWRITE_DISPOSE) { /* do not retry at once */
        journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES;
        journal->rewrite_ns = clock_deadline_ns(JOURNAL_REWRITE_RETRY_MS);
    }
    rewrite->phase = REWRITE_NONE;
    pthread_mutex_unlock(journal->owner.mutex);
}

/* ---- the ledgers as records --------------------------------------------- */

/* The record's LSN is not known before all are there: it is sealed when written, and until then
 * holds only its entry's length. */
static enum error add_record(void *context, const struct entry *entry)
{
    struct journal_bytes *records = context;
    size_t entry_bytes;
    enum error error =
        journal_bytes_reserve(records, journal_record_bytes(entry_bound_bytes(entry)));
    if (error)
        return error;
    uint8_t *record = journal_bytes_add(records, entry, &entry_bytes);
    uint32_t length = (uint32_t)entry_bytes;
    memcpy(record + 8, &length, sizeof(length));
    return OK;
}

static enum error create_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    enum error error = state_confirm(journal->state);
    if (!error)
        error = journal_file_create(&rewrite->file, journal->new_path);
    uint64_t records_end = JOURNAL_HEADER_BYTES + rewrite->records.length;
    rewrite->file.shift = (int64_t)(rewrite->start - records_end);
    rewrite->records_written = 0;
    rewrite->piece_bytes = PIECE_BYTES;
    return error;
}

/* Seals and writes records, at most `most` bytes and one more record. */
static enum error write_records(struct journal *journal, size_t most)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    size_t begin = rewrite->records_written;
    size_t at = begin;
    while (at < rewrite->records.length && at - begin < most) {
        uint32_t entry_bytes;
        uint8_t *record = rewrite->records.bytes + at;
        memcpy(&entry_bytes, record + 8, sizeof(entry_bytes));
        uint64_t lsn = JOURNAL_HEADER_BYTES + at + (uint64_t)rewrite->file.shift;
        journal_record_seal(record, entry_bytes, journal->id, lsn, at, false);
        at += journal_record_bytes(entry_bytes);
    }
    rewrite->records_written = at;
    return journal_file_write(&rewrite->file, rewrite->records.bytes + begin, at - begin,
                              JOURNAL_HEADER_BYTES + begin);
}

/* Will nothing be appended after this file is made? */
static bool is_finished(const struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    bool finished = journal->condition == JOURNAL_FINISHED;
    pthread_mutex_unlock(journal->owner.mutex);
    return finished;
}

/* Reserves room for later entries, writes the header and syncs everything. */
static enum error complete_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    struct journal_file *file = &rewrite->file;
    uint64_t end = rewrite->copied - (uint64_t)file->shift;
    uint8_t bytes[JOURNAL_HEADER_BYTES];
    if (file->ready < end)
        file->room = file->ready = end;
    enum error error = journal_file_grow(file, end + 1, journal->maps);
    if (error)
        return error;
    journal_header_encode(
        &(struct journal_header){
            .id = journal->id, .shift = file->shift, .whole_end = end, .length = file->length},
        bytes);
    rewrite->watermark = (struct journal_watermark){
        .whole = rewrite->copied, .length = file->length, .closed = is_finished(journal)};
    journal_watermark_encode(&rewrite->watermark, journal->id, bytes + JOURNAL_WATERMARK_OFFSET);
    error = journal_file_write(file, bytes, sizeof(bytes), 0);
    return error ? error : journal_file_sync(file);
}

/* Renames the new file. */
static enum error name_file(const struct journal *journal)
{
    enum error error = state_confirm(journal->state);
    if (!error && rename(journal->new_path, journal->path) != 0)
        error = error_set_errno(ERROR_IO, errno, "cannot rename the state %s to %s",
                                journal->new_path, journal->path);
    return error;
}

/* Makes it the journal; rewrite->file is then the old one. The mutex is held. */
static void switch_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    struct journal_file old = journal->file;
    journal->file = rewrite->file;
    journal->file.path = journal->path;
    rewrite->file = old;
    journal->watermark = rewrite->watermark;
    journal->synced_room = rewrite->watermark.length;
    journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES + rewrite->records.length;
    journal->rewrite_ns = INT64_MAX;
    journal->map_lost = false;
    journal->growth_failure.code = OK; /* of the old file */
    journal->counts.rewrites++;
}

/* ---- all at once -------------------------------------------------------- */

static enum error rewrite_whole(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    pthread_mutex_lock(journal->owner.mutex);
    rewrite->start = rewrite->copied = journal->end;
    enum error error = journal->owner.write(journal->owner.ledgers, add_record, &rewrite->records);
    pthread_mutex_unlock(journal->owner.mutex);
    if (!error)
        error = create_file(journal);
    if (!error)
        error = write_records(journal, SIZE_MAX);
    if (!error)
        error = complete_file(journal);
    if (!error)
        error = name_file(journal);
    if (error)
        return error;
    pthread_mutex_lock(journal->owner.mutex);
    switch_file(journal);
    journal->written = journal->synced = rewrite->start;
    journal->pending.length = 0;
    pthread_mutex_unlock(journal->owner.mutex);
    return journal_sync_folder(journal->folder);
}

enum error journal_rewrite_whole(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t rewrites = journal->counts.rewrites;
    journal_await_undo(journal);
    journal_rewrite_abandon(journal);
    enum error error = journal_read_back(journal);
    if (!error)
        error = rewrite_whole(journal);
    if (error && rewrites == journal->counts.rewrites && rewrite->file.descriptor >= 0)
        (void)unlink(journal->new_path);
    journal_file_close(&rewrite->file);
    journal_bytes_release(&rewrite->records);
    return error;
}

/* ---- a piece at a time -------------------------------------------------- */

static enum error begin(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    pthread_mutex_lock(journal->owner.mutex);
    rewrite->start = rewrite->copied = journal->written;
    journal->rewrite_at = UINT64_MAX;
    journal->rewrite_ns = INT64_MAX;
    pthread_mutex_unlock(journal->owner.mutex);
    *ret_done = true;
    return OK;
}

static enum error read_some(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t end = journal_file_offset(&journal->file, rewrite->start);
    enum error error =
        rewrite->reread.ledgers ? OK : journal_reread_begin(journal, &rewrite->reread);
    if (!error)
        error = journal_reread_some(journal, &rewrite->reread, end, ENTRIES_BYTES);
    *ret_done = rewrite->reread.at == end;
    return error;
}

/* owner.write() cannot be suspended: it yields in between. */
static enum error add_and_yield(void *context, const struct entry *entry)
{
    struct journal *journal = context;
    struct journal_rewrite *rewrite = &journal->rewrite;
    enum error error = add_record(&rewrite->records, entry);
    if (error || rewrite->records.length - rewrite->records_written < ENTRIES_BYTES)
        return error;
    rewrite->records_written = rewrite->records.length;
    return rewrite->yield(journal);
}

static enum error list(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    rewrite->records.length = rewrite->records_written = 0;
    enum error error = journal->owner.write(rewrite->reread.ledgers, add_and_yield, journal);
    journal_reread_release(journal, &rewrite->reread);
    *ret_done = true;
    return error ? error : create_file(journal);
}

/* Syncs each piece before writing the next one, so that no commit waits for many. */
static enum error write_some(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t begin = JOURNAL_HEADER_BYTES + rewrite->records_written;
    enum error error = write_records(journal, PIECE_BYTES);
    *ret_done = rewrite->records_written == rewrite->records.length;
    return error ? error : journal_file_push(&rewrite->file, begin);
}

/* Copies records of the old file up to LSN `end` to the new one, at most `most` bytes. */
static enum error copy_tail(struct journal *journal, uint64_t end, uint64_t most)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint8_t bytes[64 << 10];
    enum error error = OK;
    while (rewrite->copied < end && most > 0 && !error) {
        uint64_t length = end - rewrite->copied;
        if (length > sizeof(bytes))
            length = sizeof(bytes);
        error = file_read_at(journal->file.descriptor, journal->file.path, bytes, (size_t)length,
                             journal_file_offset(&journal->file, rewrite->copied));
        if (!error)
            error = journal_file_write(&rewrite->file, bytes, (size_t)length,
                                       journal_file_offset(&rewrite->file, rewrite->copied));
        rewrite->copied += length;
        most -= most < length ? most : length;
    }
    return error;
}

static uint64_t written_so_far(const struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    uint64_t written = journal->written;
    pthread_mutex_unlock(journal->owner.mutex);
    return written;
}

/* Pieces grow, so that copying catches up with appends at any rate: done when the rest is less than
 * one of them. */
static enum error copy_some(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t written = written_so_far(journal);
    uint64_t begin = journal_file_offset(&rewrite->file, rewrite->copied);
    rewrite->piece_bytes *= 2;
    *ret_done = written <= rewrite->copied + rewrite->piece_bytes;
    enum error error = copy_tail(journal, written, rewrite->piece_bytes);
    return error ? error : journal_file_push(&rewrite->file, begin);
}

static enum error settle(struct journal *journal, bool *ret_done)
{
    enum error error = copy_tail(journal, written_so_far(journal), UINT64_MAX);
    *ret_done = true;
    return error ? error : complete_file(journal);
}

/* Reserves room first, since growing a file clears its new part. `more`: bytes for what follows. */
static enum error copy_into_room(struct journal *journal, uint64_t written, uint64_t more)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t end = journal_file_offset(&rewrite->file, written);
    enum error error = journal_file_grow(&rewrite->file, end + more, journal->maps);
    return error ? error : copy_tail(journal, written, UINT64_MAX);
}

/* Copies and syncs what arrived since the last copy: twice, so that little is left for the
 * mutex. */
static enum error catch_up(struct journal *journal, uint64_t *ret_synced)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    enum error error = copy_into_room(journal, written_so_far(journal), ROOM_BYTES);
    if (!error)
        error = journal_file_sync(&rewrite->file);
    uint64_t synced = rewrite->copied;
    if (!error) /* DURABILITY_PROCESS: appended during disk I/O */
        error = copy_into_room(journal, written_so_far(journal), ROOM_BYTES);
    if (!error)
        *ret_synced = synced;
    return error;
}

/* The live ledgers are complete, whatever happened to the file: writes them at once. */
static void leave_file(struct journal *journal, enum error error)
{
    pthread_mutex_lock(journal->owner.mutex);
    journal_fail(journal, error);
    pthread_mutex_unlock(journal->owner.mutex);
}

/* From now on entries are pending, until the files are switched. ERROR_CANCELLED: one is in neither
 * file, since the map was lost (SIGBUS): the failure of a write, which a switch would hide. */
static enum error stop_writing(struct journal *journal, uint64_t *ret_written)
{
    pthread_mutex_lock(journal->owner.mutex);
    journal->switches = true;
    *ret_written = journal->written;
    bool is_lost = journal->map_lost;
    pthread_mutex_unlock(journal->owner.mutex);
    return is_lost ? ERROR_CANCELLED : OK;
}

/* Copies the last records while nothing is written to the file. */
static enum error switch_over(struct journal *journal, bool *ret_done)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t synced = 0, written = 0;
    enum error error = catch_up(journal, &synced);
    if (error)
        return error;
    error = stop_writing(journal, &written);
    if (!error)
        error = copy_into_room(journal, written, ROOM_BYTES);
    if (!error)
        error = name_file(journal);
    if (error && !journal_file_has_name(&journal->file)) {
        leave_file(journal, error); /* before anything is written that a start would not find */
        error = ERROR_CANCELLED;
    }
    journal_await_undo(journal);
    pthread_mutex_lock(journal->owner.mutex);
    if (!error) {
        switch_file(journal);
        journal->synced = synced;
    }
    journal->switches = false;
    pthread_mutex_unlock(journal->owner.mutex);
    if (error)
        return error;
    *ret_done = true;
    journal_bytes_release(&rewrite->records);
    error = journal_sync_folder(journal->folder);
    if (error) /* after power loss the old name may be back: compact again until it is not */
        leave_file(journal, error);
    return OK;
}

/* Frees a long file piece by piece: removing its end takes the system a while. */
static enum error dispose_some(struct journal *journal, bool *ret_done)
{
    *ret_done = !journal_file_dispose(&journal->rewrite.file, DISPOSE_BYTES);
    return OK;
}

/* A file that does not read back is the journal's failure, anything else only this attempt's. */
static void note_why(struct journal *journal, enum error error)
{
    if (journal->rewrite.phase == REWRITE_READ && (error == ERROR_INPUT || error == ERROR_IO))
        leave_file(journal, error);
    else if (error != ERROR_CANCELLED)
        log_warning("%s; the journal keeps growing, and is compacted later", error_message());
}

void journal_rewrite_step(struct journal *journal, enum error (*yield)(struct journal *))
{
    static enum error (*const pieces[])(struct journal * journal, bool *ret_done) = {
        [REWRITE_NONE] = begin,         [REWRITE_READ] = read_some,      [REWRITE_LIST] = list,
        [REWRITE_WRITE] = write_some,   [REWRITE_COPY] = copy_some,      [REWRITE_SETTLE] = settle,
        [REWRITE_SWITCH] = switch_over, [REWRITE_DISPOSE] = dispose_some};
    struct journal_rewrite *rewrite = &journal->rewrite;
    bool done = false;
    rewrite->yield = yield;
    rewrite->worked_ns = clock_now_ns();
    enum error error = pieces[rewrite->phase](journal, &done);
    if (error)
        note_why(journal, error);
    if (error || (done && rewrite->phase == REWRITE_DISPOSE))
        journal_rewrite_abandon(journal);
    else if (done)
        rewrite->phase++;
}
