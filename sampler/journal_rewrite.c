/*
 * The journal written anew: the book as it is now into DIR/journal.new, then what was appended
 * since, then its name. Until the rename the old file is the journal; after it the new one is, with
 * all that the old one had on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "sampler/journal_private.h"

#define SLICE_BYTES ((size_t)1 << 20)
#define BOOK_PREPARED_BYTES ((uint64_t)64 << 20)

bool journal_wants_rewrite(const struct journal *journal)
{
    return journal->durability != DURABILITY_NONE && journal->end >= journal->rewrite_at;
}

void journal_rewrite_abandon(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    if (rewrite->file.descriptor >= 0)
        (void)unlink(journal->new_path);
    journal_file_close(&rewrite->file);
    journal_bytes_release(&rewrite->book);
    rewrite->active = false;
}

/* ---- the book ----------------------------------------------------------------------------------
 */

/* The entry's length stands in its frame until the frame is sealed. */
static enum error add_to_book(void *context, const struct entry *entry)
{
    struct journal_bytes *book = context;
    size_t entry_bytes;
    enum error error = journal_bytes_reserve(book, journal_frame_bytes(entry_bound_bytes(entry)));
    if (error != OK)
        return error;
    uint8_t *frame = journal_bytes_add(book, entry, &entry_bytes);
    uint32_t length = (uint32_t)entry_bytes;
    memcpy(frame + 8, &length, sizeof(length));
    return OK;
}

/* The mutex is held. */
static enum error take_book(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    rewrite->book.length = 0;
    rewrite->book_written = rewrite->book_sealed = 0;
    rewrite->start = rewrite->copied = journal->end;
    return journal->owner.write(journal->owner.context, add_to_book, &rewrite->book);
}

static enum error create_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    enum error error = journal_file_create(&rewrite->file, journal->new_path);
    uint64_t book_end = JOURNAL_HEADER_BYTES + rewrite->book.length;
    rewrite->file.shift = (int64_t)(rewrite->start - book_end);
    return error;
}

/* Seals and writes at most `most` bytes of the book. */
static enum error write_book(struct journal *journal, size_t most)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    size_t begin = rewrite->book_written;
    size_t at = begin;
    while (at < rewrite->book.length && at - begin < most) {
        uint32_t entry_bytes;
        uint8_t *frame = rewrite->book.bytes + at;
        memcpy(&entry_bytes, frame + 8, sizeof(entry_bytes));
        uint64_t lsn = JOURNAL_HEADER_BYTES + at + (uint64_t)rewrite->file.shift;
        journal_frame_seal(frame, entry_bytes, journal->id, lsn, at, false);
        at += journal_frame_bytes(entry_bytes);
    }
    enum error error = journal_file_write(&rewrite->file, rewrite->book.bytes + begin, at - begin,
                                          JOURNAL_HEADER_BYTES + begin);
    rewrite->book_written = at;
    if (error == OK) /* the disk begins now, so that the end need not wait for all of it */
        (void)sync_file_range(rewrite->file.descriptor, (off_t)(JOURNAL_HEADER_BYTES + begin),
                              (off_t)(at - begin), SYNC_FILE_RANGE_WRITE);
    return error;
}

/* Room for what comes, and the header; then all of it is on the disk. */
static enum error complete_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    struct journal_file *file = &rewrite->file;
    uint64_t end = rewrite->copied - (uint64_t)file->shift;
    uint8_t bytes[JOURNAL_HEADER_BYTES];
    if (file->room < end)
        file->room = end;
    enum error error = journal_file_grow(file, end + 1, journal->maps);
    if (error != OK)
        return error;
    journal_header_encode(
        &(struct journal_header){
            .id = journal->id, .shift = file->shift, .whole_end = end, .length = file->length},
        bytes);
    rewrite->mark = (struct journal_mark){.whole = rewrite->copied, .length = file->length};
    journal_mark_encode(&rewrite->mark, journal->id, bytes + JOURNAL_MARK_OFFSET);
    error = journal_file_write(file, bytes, sizeof(bytes), 0);
    return error == OK ? journal_file_sync(file) : error;
}

/* The new file gets the name, and is the journal from now on. The mutex is held. */
static enum error switch_file(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint64_t book_bytes = rewrite->book.length;
    if (rename(journal->new_path, journal->path) != 0)
        return error_set_errno(ERROR_IO, errno, "cannot rename the state %s to %s",
                               journal->new_path, journal->path);
    journal_file_close(&journal->file);
    journal->file = rewrite->file;
    journal->file.path = journal->path;
    journal->marked = rewrite->mark;
    journal->synced_room = rewrite->mark.length;
    rewrite->file = (struct journal_file){.descriptor = -1};
    journal_bytes_release(&rewrite->book);
    rewrite->active = false;
    journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES + book_bytes;
    journal->counts.rewrites++;
    return OK;
}

/* ---- all at once -------------------------------------------------------------------------------
 */

static enum error rewrite_whole(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    pthread_mutex_lock(journal->owner.mutex);
    enum error error = take_book(journal);
    pthread_mutex_unlock(journal->owner.mutex);
    if (error == OK)
        error = create_file(journal);
    if (error == OK)
        error = write_book(journal, SIZE_MAX);
    if (error == OK)
        error = complete_file(journal);
    if (error != OK)
        return error;
    pthread_mutex_lock(journal->owner.mutex);
    error = switch_file(journal);
    if (error == OK) {
        journal->written = journal->synced = rewrite->start;
        journal->pending.length = 0;
    }
    pthread_mutex_unlock(journal->owner.mutex);
    return error == OK ? journal_sync_folder(journal->folder) : error;
}

enum error journal_rewrite_whole(struct journal *journal)
{
    enum error error = rewrite_whole(journal);
    if (error != OK)
        journal_rewrite_abandon(journal);
    return error;
}

/* ---- a piece at a time -------------------------------------------------------------------------
 */

/* Nobody draws while the book is taken: its memory is there, and touched, before. A journal is
 * about as long as its book, or longer. */
static enum error prepare_book(struct journal *journal)
{
    struct journal_bytes *book = &journal->rewrite.book;
    pthread_mutex_lock(journal->owner.mutex);
    uint64_t bytes = journal->end - (uint64_t)journal->file.shift;
    pthread_mutex_unlock(journal->owner.mutex);
    if (bytes > BOOK_PREPARED_BYTES)
        bytes = BOOK_PREPARED_BYTES;
    book->length = 0;
    enum error error = journal_bytes_reserve(book, (size_t)bytes);
    if (error == OK)
        memset(book->bytes, 1, (size_t)bytes); /* zeros could be left out */
    return error;
}

static enum error begin(struct journal *journal)
{
    if (prepare_book(journal) != OK)
        return ERROR_MEMORY;
    pthread_mutex_lock(journal->owner.mutex);
    enum error error = take_book(journal);
    journal->rewrite.active = error == OK;
    pthread_mutex_unlock(journal->owner.mutex);
    return error == OK ? create_file(journal) : error;
}

/* Frames of the old file up to LSN `end` into the new one, at most `most` bytes. */
static enum error copy_tail(struct journal *journal, uint64_t end, uint64_t most)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    uint8_t bytes[64 << 10];
    enum error error = OK;
    while (rewrite->copied < end && most > 0 && error == OK) {
        uint64_t length = end - rewrite->copied;
        if (length > sizeof(bytes))
            length = sizeof(bytes);
        error = file_read_at(journal->file.descriptor, journal->file.path, bytes, (size_t)length,
                             rewrite->copied - (uint64_t)journal->file.shift);
        if (error == OK)
            error = journal_file_write(&rewrite->file, bytes, (size_t)length,
                                       rewrite->copied - (uint64_t)rewrite->file.shift);
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

/* The last entries are copied while none can come; those that wait for their commit
 * (DURABILITY_FSYNC) are in no file, and get room. */
static enum error finish(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    enum error error = copy_tail(journal, written_so_far(journal), UINT64_MAX);
    if (error == OK)
        error = complete_file(journal);
    if (error != OK)
        return error;
    uint64_t synced = rewrite->copied;
    pthread_mutex_lock(journal->owner.mutex);
    error = journal_file_grow(&rewrite->file, journal->end - (uint64_t)rewrite->file.shift,
                              journal->maps);
    if (error == OK)
        error = copy_tail(journal, journal->written, UINT64_MAX);
    if (error == OK)
        error = switch_file(journal);
    if (error == OK)
        journal->synced = synced;
    pthread_mutex_unlock(journal->owner.mutex);
    if (error != OK)
        return error;
    error = journal_sync_folder(journal->folder);
    if (error != OK) { /* after power loss the old name may be back: written anew until it is not */
        pthread_mutex_lock(journal->owner.mutex);
        journal_note_failure(journal, error, true);
        pthread_mutex_unlock(journal->owner.mutex);
    }
    return error;
}

static enum error step(struct journal *journal)
{
    struct journal_rewrite *rewrite = &journal->rewrite;
    if (!rewrite->active)
        return begin(journal);
    if (rewrite->book_written < rewrite->book.length)
        return write_book(journal, SLICE_BYTES);
    uint64_t written = written_so_far(journal);
    if (written > rewrite->copied + SLICE_BYTES)
        return copy_tail(journal, written, SLICE_BYTES);
    return finish(journal);
}

enum error journal_rewrite_step(struct journal *journal)
{
    enum error error = step(journal);
    if (error == OK)
        return OK;
    journal_rewrite_abandon(journal);
    pthread_mutex_lock(journal->owner.mutex);
    journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES; /* not again at once */
    pthread_mutex_unlock(journal->owner.mutex);
    return error;
}
