/*
 * Guarantees: DIR/position is never without one whole slot, whatever instant the process or the
 * machine dies at. Does not guarantee more than the disk does: a disk that lies about fdatasync()
 * loses what it lied about.
 */
#include "sampler/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
    char *path;
    char *lock_path;
    int lock_descriptor;
    int descriptor; /* of DIR/position; -1 until it exists */
    bool has_kept;
    struct state_record kept;
    struct state_record record; /* as it was last written */
    uint64_t sequence;          /* of the last whole slot; the slot is sequence % 2 */
};

/* ---- one slot ------------------------------------------------------------------------------- */

static void put64(uint8_t *out, uint64_t value)
{
    memcpy(out, &value, sizeof(value)); /* configure refuses big-endian machines */
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return value;
}

void state_slot_encode(const struct state_record *record, uint64_t sequence,
                       uint8_t out[STATE_SLOT_BYTES])
{
    const struct state_binding *binding = &record->binding;
    memset(out, 0, STATE_SLOT_BYTES);
    memcpy(out, MAGIC, 8);
    put64(out + 8, sequence);
    memcpy(out + 16, binding->digest.bytes, 16);
    put64(out + 32, (uint64_t)binding->units);
    put64(out + 40, (uint64_t)binding->epoch_positions);
    put64(out + 48, binding->seed);
    put64(out + 56, binding->replacement);
    memcpy(out + 64, binding->design, STATE_DESIGN_BYTES);
    put64(out + 96, (uint64_t)record->position);
    put64(out + 104, (uint64_t)record->batches);
    put64(out + CHECKSUM_OFFSET, XXH3_64bits(out, CHECKSUM_OFFSET));
}

bool state_slot_decode(const uint8_t bytes[STATE_SLOT_BYTES], struct state_record *ret_record,
                       uint64_t *ret_sequence)
{
    struct state_record record = {0};
    if (memcmp(bytes, MAGIC, 8) != 0 ||
        get64(bytes + CHECKSUM_OFFSET) != XXH3_64bits(bytes, CHECKSUM_OFFSET))
        return false;
    memcpy(record.binding.digest.bytes, bytes + 16, 16);
    record.binding.units = (int64_t)get64(bytes + 32);
    record.binding.epoch_positions = (int64_t)get64(bytes + 40);
    record.binding.seed = get64(bytes + 48);
    record.binding.replacement = get64(bytes + 56) == 1;
    memcpy(record.binding.design, bytes + 64, STATE_DESIGN_BYTES);
    record.position = (int64_t)get64(bytes + 96);
    record.batches = (int64_t)get64(bytes + 104);
    if (record.binding.design[STATE_DESIGN_BYTES - 1] != '\0' || get64(bytes + 56) > 1 ||
        record.binding.units < 1 || record.binding.epoch_positions < 1 || record.position < 0 ||
        record.batches < 0 || record.binding.seed > INT64_MAX)
        return false;
    *ret_record = record;
    *ret_sequence = get64(bytes + 8);
    return true;
}

/* ---- the folder ----------------------------------------------------------------------------- */

static enum error lock_folder(struct state *state)
{
    char holder[32] = "";
    state->lock_descriptor = open(state->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (state->lock_descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "state lock %s", state->lock_path);
    if (flock(state->lock_descriptor, LOCK_EX | LOCK_NB) == 0) {
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

static enum error read_slots(struct state *state)
{
    uint8_t bytes[2 * STATE_SLOT_BYTES] = {0};
    struct file_identity identity;
    enum error error = file_identity_of(state->descriptor, state->path, &identity);
    if (error != OK)
        return error;
    size_t length = identity.size_bytes < sizeof(bytes) ? identity.size_bytes : sizeof(bytes);
    error = file_read_at(state->descriptor, state->path, bytes, length, 0);
    if (error != OK)
        return error; /* a file that was cut may still hold one whole slot */
    int damaged = 0;
    for (int slot = 0; slot < 2; slot++) {
        struct state_record record;
        uint64_t sequence;
        if (!state_slot_decode(bytes + slot * STATE_SLOT_BYTES, &record, &sequence) ||
            (int)(sequence % 2) != slot) {
            damaged++;
            continue;
        }
        if (!state->has_kept || sequence > state->sequence) {
            state->kept = record;
            state->sequence = sequence;
            state->has_kept = true;
        }
    }
    if (state->has_kept) {
        if (damaged > 0)
            log_warning("%s: one of its two records is damaged; going on from the other, position "
                        "%lld. If the damaged one was the newer, some units come twice",
                        state->path, (long long)state->kept.position);
        state->record = state->kept;
        return OK;
    }
    return error_set(ERROR_INPUT,
                     "%s: both records are damaged or not a sampler's state; the position is lost. "
                     "Move the file away to begin again at position 0",
                     state->path);
}

static enum error open_position(struct state *state)
{
    state->descriptor = open(state->path, O_RDWR | O_CLOEXEC);
    if (state->descriptor < 0 && errno == ENOENT)
        return OK;
    if (state->descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "%s", state->path);
    return read_slots(state);
}

static char *join(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = array_new(bytes, 1, "the path of a state file");
    if (path)
        snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

enum error state_open(const char *folder, struct state **ret_state)
{
    enum error error = ERROR_MEMORY;
    struct state *state = array_new(1, sizeof(*state), "the state");
    if (!state)
        return ERROR_MEMORY;
    state->descriptor = -1;
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
    if (error == OK)
        error = open_position(state);
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
    if (state->descriptor >= 0)
        close(state->descriptor);
    if (state->lock_descriptor >= 0)
        close(state->lock_descriptor); /* unlocks */
    free(state->folder);
    free(state->path);
    free(state->lock_path);
    free(state);
}

const struct state_record *state_kept(const struct state *state)
{
    return state->has_kept ? &state->kept : NULL;
}

/* ---- what it belongs to --------------------------------------------------------------------- */

static const char *yes_no(bool value)
{
    return value ? "with" : "without";
}

static enum error check_binding(const struct state *state, const struct state_binding *binding)
{
    const struct state_binding *kept = &state->kept.binding;
    char differences[ERROR_MESSAGE_BYTES / 2] = "";
    size_t length = 0;
#define DIFFERENCE(...)                                                                            \
    do {                                                                                           \
        if (length < sizeof(differences))                                                          \
            length +=                                                                              \
                (size_t)snprintf(differences + length, sizeof(differences) - length, __VA_ARGS__); \
    } while (0)
    if (memcmp(&kept->digest, &binding->digest, sizeof(kept->digest)) != 0) {
        char old_text[FRAME_DIGEST_TEXT_BYTES];
        char new_text[FRAME_DIGEST_TEXT_BYTES];
        frame_digest_text(&kept->digest, old_text);
        frame_digest_text(&binding->digest, new_text);
        DIFFERENCE("; frame %s of %" PRId64 " units there, %s of %" PRId64 " here", old_text,
                   kept->units, new_text, binding->units);
    }
    if (strcmp(kept->design, binding->design) != 0)
        DIFFERENCE("; design %s there, %s here", kept->design, binding->design);
    if (kept->replacement != binding->replacement)
        DIFFERENCE("; %s replacement there, %s here", yes_no(kept->replacement),
                   yes_no(binding->replacement));
    if (kept->seed != binding->seed)
        DIFFERENCE("; seed %" PRIu64 " there, %" PRIu64 " here", kept->seed, binding->seed);
    if (length == 0 && kept->epoch_positions != binding->epoch_positions)
        DIFFERENCE("; %" PRId64 " positions an epoch there, %" PRId64 " here",
                   kept->epoch_positions, binding->epoch_positions);
#undef DIFFERENCE
    if (length == 0)
        return OK;
    return error_set(
        ERROR_CONFLICT,
        "state folder %s belongs to another order: %s. Give it a folder of its own, or "
        "start with what is kept there",
        state->folder, differences + 2);
}

/* The entry of a new folder in the one above it must survive power loss as well; where the one
 * above cannot be opened, it was not us who made it. */
static void sync_parents(const struct state *state)
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

static enum error create_position(struct state *state)
{
    uint8_t bytes[2 * STATE_SLOT_BYTES];
    state_slot_encode(&state->record, 0, bytes);
    state_slot_encode(&state->record, 1, bytes + STATE_SLOT_BYTES);
    enum error error = file_write_whole(state->path, bytes, sizeof(bytes));
    if (error != OK)
        return error;
    sync_parents(state);
    state->sequence = 1;
    state->descriptor = open(state->path, O_RDWR | O_CLOEXEC);
    if (state->descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "%s", state->path);
    return OK;
}

enum error state_bind(struct state *state, const struct state_binding *binding)
{
    if (state->has_kept)
        return check_binding(state, binding);
    state->record = (struct state_record){.binding = *binding};
    return create_position(state);
}

/* A limit on file sizes is met like a full disk: it may be raised. */
static enum error write_error(const struct state *state, int errno_value)
{
    enum error error = errno_value == EFBIG ? ERROR_NO_SPACE : ERROR_IO;
    return error_set_errno(error, errno_value, "cannot write the state %s", state->path);
}

enum error state_write(struct state *state, int64_t position, int64_t batches, bool sync)
{
    uint8_t bytes[STATE_SLOT_BYTES];
    uint64_t sequence = state->sequence + 1;
    off_t offset = (off_t)(sequence % 2) * STATE_SLOT_BYTES;
    state->record.position = position;
    state->record.batches = batches;
    state_slot_encode(&state->record, sequence, bytes);
    for (size_t done = 0; done < sizeof(bytes);) {
        ssize_t written =
            pwrite(state->descriptor, bytes + done, sizeof(bytes) - done, offset + (off_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return write_error(state, written < 0 ? errno : ENOSPC);
        done += (size_t)written;
    }
    if (sync && fdatasync(state->descriptor) != 0)
        return write_error(state, errno);
    state->sequence = sequence;
    return OK;
}
