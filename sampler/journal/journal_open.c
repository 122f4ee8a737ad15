/* SPDX-License-Identifier: MIT */
/* The journal's start and end: read, judged, taken over. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"
#include "sampler/journal/state_folder.h"

#define DAMAGED_NAME "journal.damaged"
#define DAMAGED_NAME_BYTES 32
#define DAMAGED_MOST 1000

/* ---- opening ------------------------------------------------------------ */

struct replay {
    const struct journal_owner *owner;
    struct entry_numbers numbers;
    uint64_t entries;
};

static enum error replay_entry(void *context, const uint8_t *bytes, size_t length)
{
    struct replay *replay = context;
    struct entry entry;
    enum error error = entry_decode(bytes, length, &replay->numbers, &entry);
    replay->entries++;
    return error ? error : replay->owner->replay(replay->owner->ledgers, &entry);
}

/* The room that is there already, and zeros where a torn tail was: it can never be taken for what
 * comes. */
static enum error take_over(struct journal *journal)
{
    uint64_t end = journal->end - (uint64_t)journal->file.shift;
    enum error error =
        journal->condition == JOURNAL_TORN ? journal_file_clear(&journal->file, end) : OK;
    if (error)
        return error;
    error = journal_file_take(&journal->file, end, journal->maps);
    if (!error)
        error = journal_file_grow(&journal->file, end + 1, journal->maps);
    if (error == ERROR_NO_SPACE)
        journal_note_failure(journal, error, JOURNAL_FULL); /* what is there is served */
    else if (error)
        return error;
    error = journal_file_sync(&journal->file);
    if (!error) /* who gave it its name may have been killed before that was on the disk */
        error = journal_sync_folder(journal->folder);
    if (!error)
        (void)journal_write_watermark(journal, journal->end, journal->file.length, false);
    return error;
}

static void tell_torn(const struct journal *journal, size_t end)
{
    log_warning("state %s: the last entry, at byte %zu, is not whole, as when the process or the "
                "machine stops while it is written, before it is answered; going on from there (if "
                "it is the disk that lost it, its draws come again)",
                journal->file.path, end);
}

/* Under the first name that is free: what an earlier loss left stays as it is. */
static enum error link_damaged(const struct journal *journal, char name[DAMAGED_NAME_BYTES])
{
    char *path = NULL;
    int failed = EEXIST;
    for (int number = 1; number <= DAMAGED_MOST && failed == EEXIST; number++) {
        snprintf(name, DAMAGED_NAME_BYTES, number == 1 ? DAMAGED_NAME : DAMAGED_NAME ".%d", number);
        free(path);
        path = state_path(journal->folder, name);
        if (!path)
            return ERROR_MEMORY;
        failed = link(journal->path, path) == 0 ? 0 : errno;
    }
    enum error error = OK;
    if (failed)
        error = error_set_errno(ERROR_IO, failed, "cannot keep the damaged journal as %s", path);
    free(path);
    return error;
}

/* The file that lost something stays, and one is written from what it still had. */
static enum error keep_damaged(const struct journal *journal)
{
    char name[DAMAGED_NAME_BYTES];
    enum error error = link_damaged(journal, name);
    if (!error) /* before the new journal takes the other name */
        error = journal_sync_folder(journal->folder);
    if (!error)
        log_warning(
            "state %s: --accept-loss %" PRIu64 ": what was answered behind that byte is "
            "forgotten, and its draws come again; the damaged journal is kept as %s/%s%s",
            journal->path, journal->accept_loss, journal->folder, name,
            strcmp(name, DAMAGED_NAME) == 0 ? "" : ", beside " DAMAGED_NAME " of an earlier loss");
    return error;
}

static enum error take_file(struct journal *journal, const uint8_t *bytes, size_t length)
{
    struct replay replay = {.owner = &journal->owner};
    struct journal_found found;
    enum error error =
        journal_read(bytes, length, journal->accept_loss, replay_entry, &replay, &found);
    entry_numbers_release(&replay.numbers);
    if (error)
        return error_prefix(error, "state %s: ", journal->file.path);
    log_info("state %s: %" PRIu64 " entries read", journal->file.path, replay.entries);
    journal->id = found.header.id;
    journal_turn(journal, found.lost ? JOURNAL_LOST : found.torn ? JOURNAL_TORN : JOURNAL_WHOLE);
    journal->file.shift = found.header.shift;
    journal->file.length = length;
    journal->end = journal->written = journal->synced = found.end + (uint64_t)found.header.shift;
    journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES;
    if (found.end > JOURNAL_LONG_BYTES)
        journal->rewrite_at = journal->end; /* at once, beside the work */
    if (found.torn && !found.lost)
        tell_torn(journal, found.end);
    if (journal->accept_loss > 0 && !found.lost)
        log_warning("state %s: --accept-loss %" PRIu64 " does not name damage, and changes nothing",
                    journal->path, journal->accept_loss);
    return OK;
}

static enum error read_file(struct journal *journal)
{
    struct buffer bytes = BUFFER_INIT(SIZE_MAX / 4);
    struct file_identity identity = {0};
    enum error error = journal_file_open(&journal->file, journal->path);
    int descriptor = journal->file.descriptor;
    if (!error)
        error = file_identity_of(descriptor, journal->path, &identity);
    if (!error)
        error = buffer_reserve(&bytes, identity.size_bytes);
    if (!error)
        error = file_read_at(descriptor, journal->path, bytes.data, identity.size_bytes, 0);
    if (!error)
        bytes.length = identity.size_bytes;
    if (!error)
        error = take_file(journal, (const uint8_t *)bytes.data, bytes.length);
    buffer_release(&bytes);
    return error;
}

static enum error start_new(struct journal *journal)
{
    if (getrandom(&journal->id, sizeof(journal->id), 0) != (ssize_t)sizeof(journal->id))
        return error_set_errno(ERROR_IO, errno, "cannot draw the journal's number");
    journal->end = journal->written = journal->synced = JOURNAL_HEADER_BYTES;
    journal->rewrite_at = journal->end + JOURNAL_LONG_BYTES;
    return OK;
}

static enum error open_journal(struct journal *journal, const char *folder)
{
    journal->folder = strdup(folder);
    journal->path = state_path(folder, "journal");
    journal->new_path = state_path(folder, "journal.new");
    if (!journal->folder || !journal->path || !journal->new_path)
        return error_set_memory(strlen(folder), "the paths of the journal");
    journal->maps = journal->durability == DURABILITY_PROCESS && journal_folder_maps(folder);
    enum error error = journal_file_check_left(journal->new_path);
    if (error)
        return error;
    struct stat status; /* lstat(): a link that leads nowhere is there, and refused */
    bool is_there = lstat(journal->path, &status) == 0 || errno != ENOENT;
    return is_there ? read_file(journal) : start_new(journal);
}

enum error journal_open(struct state *state, enum durability durability, uint64_t accept_loss,
                        const struct journal_owner *owner, struct journal **ret_journal)
{
    struct journal *journal = array_new(1, sizeof(*journal), "the journal");
    if (!journal)
        return ERROR_MEMORY;
    journal->owner = *owner;
    journal->state = state;
    journal->durability = durability;
    journal->accept_loss = accept_loss;
    journal->file.descriptor = journal->rewrite.file.descriptor = -1;
    journal->waiters_end = &journal->waiters;
    pthread_cond_init(&journal->changed, NULL);
    enum error error = open_journal(journal, state_folder(state));
    if (error) {
        journal_close(journal);
        return error;
    }
    *ret_journal = journal;
    return OK;
}

enum error journal_begin(struct journal *journal)
{
    bool lost = journal->condition == JOURNAL_LOST;
    bool in_memory = journal->durability == DURABILITY_NONE;
    enum error error = lost ? keep_damaged(journal) : OK;
    if (!error && !in_memory)
        error =
            lost || journal_is_new(journal) ? journal_rewrite_whole(journal) : take_over(journal);
    if (!error && journal->condition != JOURNAL_FULL)
        journal_turn(journal, in_memory ? JOURNAL_MEMORY : JOURNAL_RUNNING);
    return error;
}

bool journal_is_new(const struct journal *journal)
{
    return journal->condition == JOURNAL_FRESH;
}

void journal_close(struct journal *journal)
{
    if (!journal)
        return;
    journal_rewrite_abandon(journal);
    journal_file_close(&journal->file);
    journal_bytes_release(&journal->pending);
    journal_bytes_release(&journal->spare);
    pthread_cond_destroy(&journal->changed);
    free(journal->folder);
    free(journal->path);
    free(journal->new_path);
    free(journal);
}
