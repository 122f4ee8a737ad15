/* SPDX-License-Identifier: MIT */
/* The journal's start and end: reading, judging and taking over the file. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"
#include "sampler/journal/state_folder.h"

#define NEW_NAME "journal.new"
#define NEW_NAME_BYTES 40
#define MARK_BYTES 16
#define DAMAGED_NAME "journal.damaged"
#define DAMAGED_NAME_BYTES 32
#define DAMAGED_MOST 1000

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

/* ---- what killed servers left ------------------------------------------- */

/* "journal.new", followed by ".MARK"; from earlier versions by ".GENERATION", or nothing. */
static int is_left(const struct dirent *entry)
{
    size_t length = strlen(NEW_NAME);
    if (strncmp(entry->d_name, NEW_NAME, length) != 0 || !entry->d_name[length])
        return strcmp(entry->d_name, NEW_NAME) == 0;
    const char *number = entry->d_name + length + 1;
    size_t bytes = strlen(number);
    return number[-1] == '.' &&
           ((bytes > 0 && strspn(number, "0123456789") == bytes) ||
            (bytes == MARK_BYTES && strspn(number, "0123456789abcdef") == bytes));
}

static enum error remove_left(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return OK;
    return error_set_errno(ERROR_IO, errno, "cannot remove the state %s", path);
}

static enum error each_left(const struct journal *journal, enum error (*visit)(const char *path))
{
    struct dirent **entries;
    enum error error = OK;
    int count = scandir(journal->folder, &entries, is_left, NULL);
    if (count < 0)
        return error_set_errno(ERROR_IO, errno, "cannot list the state folder %s", journal->folder);
    for (int i = 0; i < count; i++) {
        char *path = error ? NULL : state_path(journal->folder, entries[i]->d_name);
        if (!error)
            error = path ? visit(path) : ERROR_MEMORY;
        free(path);
        free(entries[i]);
    }
    free(entries);
    return error;
}

/* ---- opening ------------------------------------------------------------ */

static void tell_torn(const struct journal *journal, size_t end)
{
    log_warning("state %s: the last entry, at byte %zu, is not whole, as when the process or the "
                "machine stops while it is written, before it is answered; going on from there (if "
                "it is the disk that lost it, its draws come again)",
                journal->file.path, end);
}

/* Uses the first free name: files kept from earlier losses stay as they are. */
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

/* Keeps the damaged file, and writes a new one from what could be read. */
static enum error keep_damaged(const struct journal *journal)
{
    char name[DAMAGED_NAME_BYTES];
    enum error error = link_damaged(journal, name);
    if (!error) /* before the new journal gets the other name */
        error = journal_sync_folder(journal->folder);
    if (!error)
        log_warning(
            "state %s: --accept-loss %" PRIu64 ": what was answered after that byte is "
            "forgotten, and its draws come again; the damaged journal is kept as %s/%s%s",
            journal->path, journal->accept_loss, journal->folder, name,
            strcmp(name, DAMAGED_NAME) == 0 ? "" : ", next to " DAMAGED_NAME " of an earlier loss");
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
    return OK;
}

static enum error open_journal(struct journal *journal, const char *folder)
{
    char name[NEW_NAME_BYTES];
    snprintf(name, sizeof(name), NEW_NAME ".%016" PRIx64, state_mark(journal->state));
    journal->folder = strdup(folder);
    journal->path = state_path(folder, "journal");
    journal->new_path = state_path(folder, name);
    if (!journal->folder || !journal->path || !journal->new_path)
        return error_set_memory(strlen(folder), "the paths of the journal");
    journal->maps = journal->durability == DURABILITY_PROCESS && !state_is_remote(journal->state);
    if (journal->maps)
        journal_map_install();
    enum error error = each_left(journal, journal_file_check_left);
    if (error)
        return error;
    struct stat status; /* lstat(): a dangling link exists, and is refused */
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
    journal->watched_ns = clock_now_ns();
    pthread_cond_init(&journal->changed, NULL);
    pthread_cond_init(&journal->grown, NULL);
    enum error error = open_journal(journal, state_folder(state));
    if (error) {
        journal_close(journal);
        return error;
    }
    *ret_journal = journal;
    return OK;
}

/* Always into a new file: a previous holder that does not know yet that it lost the folder writes
 * to the old one. Once its half-written new file is removed, it cannot rename that either. */
static enum error take_over(struct journal *journal)
{
    enum error error = each_left(journal, remove_left);
    if (!error && journal->condition == JOURNAL_LOST)
        error = keep_damaged(journal);
    if (!error && journal->durability != DURABILITY_NONE)
        error = journal_rewrite_whole(journal);
    return error;
}

enum error journal_begin(struct journal *journal)
{
    bool is_served = journal->condition == JOURNAL_WHOLE || journal->condition == JOURNAL_TORN;
    enum error error = take_over(journal);
    if (error == ERROR_NO_SPACE && is_served) {
        journal_note_failure(journal, error, JOURNAL_FAILING); /* until there is room */
        return OK;
    }
    if (!error)
        journal_turn(journal,
                     journal->durability == DURABILITY_NONE ? JOURNAL_MEMORY : JOURNAL_RUNNING);
    return error;
}

void journal_close(struct journal *journal)
{
    if (!journal)
        return;
    journal_await_undo(journal);
    journal_rewrite_abandon(journal);
    journal_file_close(&journal->file);
    journal_bytes_release(&journal->pending);
    journal_bytes_release(&journal->group);
    journal_bytes_release(&journal->spare);
    pthread_cond_destroy(&journal->changed);
    pthread_cond_destroy(&journal->grown);
    free(journal->folder);
    free(journal->path);
    free(journal->new_path);
    free(journal);
}
