#include "sampler/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"

#define MAGIC "TMBLPOS1"
#define CHECKSUM_OFFSET (STATE_SLOT_BYTES - 8)

struct state {
    char *folder; /* owned, and the two below */
    char *path;   /* of DIR/position */
    char *lock_path;
    int lock_descriptor;
    bool was_used; /* DIR/lock was there before */
    bool has_kept;
    struct state_record kept;
};

/* ---- DIR/position ---------------------------------------------------------------------------- */

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof(value)); /* configure refuses big-endian machines */
    return value;
}

bool state_slot_decode(const uint8_t bytes[STATE_SLOT_BYTES], struct state_record *ret_record,
                       uint64_t *ret_sequence)
{
    struct state_record record = {0};
    if (memcmp(bytes, MAGIC, 8) != 0 ||
        get64(bytes + CHECKSUM_OFFSET) != XXH3_64bits(bytes, CHECKSUM_OFFSET))
        return false;
    memcpy(record.digest, bytes + 16, 16);
    record.units = (int64_t)get64(bytes + 32);
    record.epoch_positions = (int64_t)get64(bytes + 40);
    record.seed = get64(bytes + 48);
    record.replacement = get64(bytes + 56) == 1;
    memcpy(record.design, bytes + 64, STATE_DESIGN_BYTES);
    record.position = (int64_t)get64(bytes + 96);
    record.batches = (int64_t)get64(bytes + 104);
    if (record.design[STATE_DESIGN_BYTES - 1] != '\0' || get64(bytes + 56) > 1 ||
        record.units < 1 || record.epoch_positions < 1 || record.position < 0 ||
        record.batches < 0 || record.seed > INT64_MAX)
        return false;
    *ret_record = record;
    *ret_sequence = get64(bytes + 8);
    return true;
}

static enum error read_slots(struct state *state, int descriptor)
{
    uint8_t bytes[2 * STATE_SLOT_BYTES] = {0};
    struct file_identity identity;
    uint64_t newest = 0;
    enum error error = file_identity_of(descriptor, state->path, &identity);
    if (error != OK)
        return error;
    size_t length = identity.size_bytes < sizeof(bytes) ? identity.size_bytes : sizeof(bytes);
    error = file_read_at(descriptor, state->path, bytes, length, 0);
    if (error != OK)
        return error; /* a file that was cut may still hold one whole slot */
    for (int slot = 0; slot < 2; slot++) {
        struct state_record record;
        uint64_t sequence;
        if (!state_slot_decode(bytes + slot * STATE_SLOT_BYTES, &record, &sequence) ||
            (int)(sequence % 2) != slot) {
            log_warning("%s: one of its two records is damaged. If it was the newer one, some "
                        "units come twice",
                        state->path);
            continue;
        }
        if (!state->has_kept || sequence > newest) {
            state->kept = record;
            newest = sequence;
            state->has_kept = true;
        }
    }
    if (state->has_kept)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s: both records are damaged or not a sampler's state; the position is lost. "
                     "Move the file away to begin again at position 0",
                     state->path);
}

static enum error open_position(struct state *state)
{
    int descriptor = open(state->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT)
        return OK;
    if (descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "%s", state->path);
    enum error error = read_slots(state, descriptor);
    close(descriptor);
    return error;
}

const struct state_record *state_position(const struct state *state)
{
    return state->has_kept ? &state->kept : NULL;
}

enum error state_forget_position(struct state *state)
{
    if (unlink(state->path) != 0 && errno != ENOENT)
        return error_set_errno(ERROR_IO, errno, "cannot remove %s, which is in the journal now",
                               state->path);
    state->has_kept = false;
    return OK;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static enum error lock_folder(struct state *state)
{
    char holder[32] = "";
    state->lock_descriptor = open(state->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (state->lock_descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "state lock %s", state->lock_path);
    if (flock(state->lock_descriptor, LOCK_EX | LOCK_NB) == 0) {
        state->was_used = pread(state->lock_descriptor, holder, 1, 0) == 1;
        int length = snprintf(holder, sizeof(holder), "%ld\n", (long)getpid());
        if (ftruncate(state->lock_descriptor, 0) != 0 ||
            pwrite(state->lock_descriptor, holder, (size_t)length, 0) != length)
            return OK; /* the number is for the message below only; the lock is held */
        return OK;
    }
    if (errno != EWOULDBLOCK)
        return error_set_errno(ERROR_IO, errno, "state lock %s", state->lock_path);
    ssize_t length = pread(state->lock_descriptor, holder, sizeof(holder) - 1, 0);
    holder[length > 0 ? strcspn(holder, "\n") : 0] = '\0';
    return error_set(ERROR_CONFLICT,
                     "state folder %s is in use by another server (process %s); give each server a "
                     "folder of its own",
                     state->folder, holder[0] ? holder : "unknown");
}

static char *join(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = array_new(bytes, 1, "the path of a state file");
    if (path)
        snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

/* A journal counts; a position beside it was taken over already. */
static bool has_journal(const struct state *state)
{
    char *path = join(state->folder, "journal");
    bool has = path && (access(path, F_OK) == 0 || errno != ENOENT);
    free(path);
    return has;
}

enum error state_open(const char *folder, struct state **ret_state)
{
    enum error error = ERROR_MEMORY;
    struct state *state = array_new(1, sizeof(*state), "the state");
    if (!state)
        return ERROR_MEMORY;
    state->lock_descriptor = -1;
    state->folder = strdup(folder);
    state->path = join(folder, "position");
    state->lock_path = join(folder, "lock");
    if (!state->folder || !state->path || !state->lock_path) {
        error = error_set_memory(strlen(folder), "the path of the state folder");
        goto out;
    }
    error = file_make_folders(folder);
    if (error == OK)
        error = lock_folder(state);
    if (error == OK && !has_journal(state)) {
        error = open_position(state);
        if (error == OK && state->was_used && !state->has_kept)
            log_warning("state folder %s: a server had it before (its lock is there), but there is "
                        "no journal: starting anew. If one was kept here and is lost, its draws "
                        "come again",
                        folder);
    }
    if (error == OK) {
        *ret_state = state;
        state = NULL;
    }
out:
    state_close(state);
    return error;
}

void state_close(struct state *state)
{
    if (!state)
        return;
    if (state->lock_descriptor >= 0)
        close(state->lock_descriptor); /* unlocks */
    free(state->folder);
    free(state->path);
    free(state->lock_path);
    free(state);
}

const char *state_folder(const struct state *state)
{
    return state->folder;
}

/* The entry of a new folder in the one above it must survive power loss as well; where the one
 * above cannot be opened, it was not us who made it. */
void state_sync_parents(const struct state *state)
{
    char *path = realpath(state->folder, NULL);
    for (char *slash = path ? strrchr(path, '/') : NULL; slash; slash = strrchr(path, '/')) {
        slash[slash == path] = '\0';
        int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor >= 0) {
            (void)fsync(descriptor);
            close(descriptor);
        }
        if (slash == path)
            break;
    }
    free(path);
}
