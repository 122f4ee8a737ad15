/* SPDX-License-Identifier: MIT */
#include "sampler/journal/state_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "common/remote_disk.h"

#define HOLDER_BYTES 256    /* of DIR/lock; within one sector */
#define OLD_HOLDER_BYTES 32 /* versions before generations wrote less */
#define GENERATION ", generation "
#define LOCK_ATTEMPTS 100

struct state {
    char *folder; /* owned, and the one below */
    char *lock_path;
    size_t folders_there; /* of `folder`, which existed before */
    int lock_descriptor;
    bool has_lock;                 /* we hold it */
    bool was_there;                /* DIR/lock existed before */
    bool was_used;                 /* a server had written to it */
    char before[HOLDER_BYTES + 1]; /* its previous content, with a NUL */
    size_t before_bytes;
    uint64_t mark;
    char holder[HOLDER_BYTES]; /* what we wrote; unique to this start */
    bool may_undo;             /* until state_take() */
    bool is_remote;            /* on a network file system */
};

char *state_path(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = array_new(bytes, 1, "the path of a state file");
    if (path)
        snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

/* ---- the folder --------------------------------------------------------- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* Is the lock that we hold still the one at the path? True if that cannot be determined. */
static bool is_lock_ours(const struct state *state)
{
    struct stat held;
    struct stat found;
    if (stat(state->lock_path, &found) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return fstat(state->lock_descriptor, &held) != 0 || is_same_file(&held, &found);
}

enum holding { HOLDING_OURS, HOLDING_REPLACED, HOLDING_TAKEN, HOLDING_UNKNOWN };

/* An empty lock names no holder. */
static enum holding look(const struct state *state, char ret_text[HOLDER_BYTES + 1])
{
    struct stat held;
    struct stat found;
    int descriptor = remote_disk_open(state->lock_path, O_NOFOLLOW | O_NONBLOCK, state->is_remote);
    if (descriptor < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? HOLDING_REPLACED
                                                                     : HOLDING_UNKNOWN;
    bool known = fstat(state->lock_descriptor, &held) == 0 && fstat(descriptor, &found) == 0;
    bool same = known && is_same_file(&held, &found);
    ssize_t length = same ? remote_disk_read(descriptor, ret_text, HOLDER_BYTES) : 0;
    close(descriptor);
    if (!known || length < 0)
        return HOLDING_UNKNOWN;
    ret_text[length] = '\0';
    if (!same)
        return HOLDING_REPLACED;
    bool ours = length == HOLDER_BYTES && memcmp(ret_text, state->holder, HOLDER_BYTES) == 0;
    return ours || *ret_text == '\0' ? HOLDING_OURS : HOLDING_TAKEN;
}

/* Without the trailing spaces that make all holders equally long. */
static int holder_length(const char *text)
{
    size_t length = strcspn(text, "\n");
    while (length > 0 && text[length - 1] == ' ')
        length--;
    return (int)length;
}

static enum error judge(const struct state *state, enum holding holding, const char *text)
{
    switch (holding) {
    case HOLDING_REPLACED:
        return error_set(ERROR_IO,
                         "state folder %s was removed or replaced while it was in use (its file "
                         "lock is not the one that this server holds): what is drawn is not kept "
                         "any more, and another server may have begun there",
                         state->folder);
    case HOLDING_TAKEN:
        return error_set(ERROR_IO,
                         "state folder %s was taken over by another server (process %.*s): the "
                         "file lock of this one was lost",
                         state->folder, holder_length(text), text);
    case HOLDING_UNKNOWN:
        return error_set_errno(ERROR_IO, errno, "cannot see whose state folder %s is",
                               state->folder);
    default:
        return OK;
    }
}

enum error state_confirm(const struct state *state)
{
    char text[HOLDER_BYTES + 1];
    enum holding holding = look(state, text);
    return judge(state, holding, text);
}

enum error state_check(const struct state *state)
{
    char text[HOLDER_BYTES + 1];
    enum holding holding = look(state, text);
    return holding == HOLDING_UNKNOWN ? OK : judge(state, holding, text);
}

static size_t count_digits(const char *text, size_t length)
{
    size_t digits = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits;
}

/* As written by write_holder(); power loss may leave zeros instead. */
static bool is_whole_holder(const char *text)
{
    size_t digits = count_digits(text, HOLDER_BYTES);
    size_t at = digits;
    while (at < HOLDER_BYTES &&
           ((text[at] >= ' ' && text[at] <= '~') || text[at] == '\n' || !text[at]))
        at++;
    return at == HOLDER_BYTES && (digits > 0 || !*text);
}

/* From versions before generations: a process number and a line end, or nothing. Power loss may
 * leave zeros, and after a number and its end the rest of a longer one: digits and a line end, or
 * zeros. */
static bool is_holder(const char *text, size_t length)
{
    static const char zeros[OLD_HOLDER_BYTES];
    size_t digits = count_digits(text, length);
    if (length == HOLDER_BYTES)
        return is_whole_holder(text);
    if (length >= OLD_HOLDER_BYTES)
        return false;
    if (digits == 0 || digits == length)
        return digits > 0 || memcmp(text, zeros, length) == 0;
    const char *left = text + digits + 1;
    size_t left_bytes = length - digits - 1;
    size_t left_digits = count_digits(left, left_bytes);
    bool is_end = left_digits + 1 == left_bytes && left[left_digits] == '\n';
    return text[digits] == '\n' && (is_end || memcmp(left, zeros, left_bytes) == 0);
}

static enum error refuse_second(const struct state *state)
{
    char holder[HOLDER_BYTES + 1];
    ssize_t length = pread(state->lock_descriptor, holder, HOLDER_BYTES, 0);
    holder[length > 0 ? length : 0] = '\0';
    return error_set(ERROR_CONFLICT,
                     "state folder %s is in use by another server (process %.*s); give each server "
                     "a folder of its own",
                     state->folder, (int)strcspn(holder, " \n"), *holder ? holder : "unknown");
}

/* *ret_locked: is it still under its name? A previous holder may have removed it. */
static enum error lock_once(struct state *state, bool *ret_locked)
{
    struct stat status;
    state->was_there = lstat(state->lock_path, &status) == 0;
    enum error error = file_open_own(state->lock_path, O_RDWR | O_CREAT, &state->lock_descriptor);
    if (error)
        return error_prefix(error, "state lock: ");
    if (flock(state->lock_descriptor, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? refuse_second(state)
                   : error_set_errno(ERROR_IO, errno, "state lock %s", state->lock_path);
    *ret_locked = is_lock_ours(state);
    if (!*ret_locked) {
        close(state->lock_descriptor);
        state->lock_descriptor = -1;
    }
    return OK;
}

static enum error take_lock(struct state *state)
{
    enum error error = OK;
    bool locked = false;
    for (int attempt = 0; attempt < LOCK_ATTEMPTS && !error && !locked; attempt++)
        error = lock_once(state, &locked);
    if (!error && !locked)
        error = error_set(ERROR_CONFLICT, "state lock %s is removed each time it is taken",
                          state->lock_path);
    return error;
}

/* Durable: a previous holder sees that it lost the folder, whatever happens to this machine. */
static enum error write_lock(const struct state *state, const char *text, size_t length)
{
    if (pwrite(state->lock_descriptor, text, length, 0) == (ssize_t)length &&
        ftruncate(state->lock_descriptor, (off_t)length) == 0 &&
        fdatasync(state->lock_descriptor) == 0)
        return OK;
    return error_set_errno(ERROR_IO, errno, "cannot write the state lock %s", state->lock_path);
}

/* A host's name may contain anything. */
static void name_host(char *out, size_t bytes)
{
    if (gethostname(out, bytes) != 0)
        snprintf(out, bytes, "unknown");
    out[bytes - 1] = '\0';
    for (char *at = out; *at; at++) {
        if (*at <= ' ' || *at > '~')
            *at = '?';
    }
}

/* Process, host, generation, time, and a number unique to this start; padded with spaces to a fixed
 * length, so that nothing of the previous content remains after it. */
static enum error make_holder(struct state *state)
{
    char host[HOST_NAME_MAX + 1];
    char since[32];
    char text[HOLDER_BYTES];
    struct tm when;
    time_t now = time(NULL);
    const char *before = strstr(state->before, GENERATION);
    uint64_t generation = 1 + (before ? strtoull(before + strlen(GENERATION), NULL, 10) : 0);
    if (getrandom(&state->mark, sizeof(state->mark), 0) != (ssize_t)sizeof(state->mark))
        return error_set_errno(ERROR_IO, errno, "cannot draw the start's mark");
    name_host(host, sizeof(host));
    strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &when));
    int length = snprintf(text, sizeof(text),
                          "%ld on %s" GENERATION "%" PRIu64 ", since %s, mark %016" PRIx64,
                          (long)getpid(), host, generation, since, state->mark);
    memset(state->holder, ' ', HOLDER_BYTES);
    memcpy(state->holder, text, (size_t)length);
    state->holder[HOLDER_BYTES - 1] = '\n';
    return OK;
}

static enum error lock_folder(struct state *state)
{
    enum error error = take_lock(state);
    if (error)
        return error;
    ssize_t length = pread(state->lock_descriptor, state->before, sizeof(state->before), 0);
    if (length < 0)
        return error_set_errno(ERROR_IO, errno, "state lock %s", state->lock_path);
    if (!is_holder(state->before, (size_t)length))
        return error_set(ERROR_INPUT,
                         "state lock %s holds something other than a process number: it is not a "
                         "sampler's, and was left as it is; move it away, or give --state a folder "
                         "of its own",
                         state->lock_path);
    state->before[length] = '\0';
    state->before_bytes = (size_t)length;
    state->was_used = length > 0;
    error = make_holder(state);
    state->has_lock = !error;
    return error ? error : write_lock(state, state->holder, HOLDER_BYTES);
}

bool state_is_remote(const struct state *state)
{
    return state->is_remote;
}

uint64_t state_mark(const struct state *state)
{
    return state->mark;
}

void state_take(struct state *state)
{
    state->may_undo = false;
}

/* A refused start leaves the folder as it was. Holds the lock until it is removed. */
static void undo(const struct state *state)
{
    char text[HOLDER_BYTES + 1];
    struct error_report why;
    error_report_take(ERROR_IO, &why);
    if (state->has_lock && look(state, text) == HOLDING_OURS) {
        if (!state->was_there)
            (void)unlink(state->lock_path);
        else if (write_lock(state, state->before, state->before_bytes))
            log_debug("%s", error_message());
    }
    file_remove_folders(state->folder, state->folders_there);
    (void)error_restore(&why);
}

static enum error find_file(const struct state *state, const char *name, bool *ret_is_there)
{
    char *path = state_path(state->folder, name);
    struct stat status;
    enum error error = OK;
    if (!path)
        return ERROR_MEMORY;
    *ret_is_there = lstat(path, &status) == 0;
    if (!*ret_is_there && errno != ENOENT)
        error = error_set_errno(ERROR_IO, errno, "state: cannot look at %s", path);
    free(path);
    return error;
}

/* Without a journal: is there another sign that one was kept here? */
static enum error check_beginning(const struct state *state)
{
    bool has_position = false;
    enum error error = find_file(state, "position", &has_position);
    if (error)
        return error;
    if (has_position)
        return error_set(ERROR_INPUT,
                         "state: %s/position is there, and no journal: versions before the journal "
                         "kept a position under that name, in other orders, from which nothing can "
                         "go on; give --state another folder, or move the file away",
                         state->folder);
    if (state->was_used)
        log_warning("state folder %s: a server had it before (its lock is there), but there is no "
                    "journal: starting without one. If one was kept here and is lost, its draws "
                    "come again",
                    state->folder);
    return OK;
}

enum error state_open(const char *folder, struct state **ret_state)
{
    enum error error = ERROR_MEMORY;
    bool has_journal = false;
    if (strstr(folder, "://"))
        return error_set(ERROR_USAGE, /* without its password */
                         "--state is a URI; the state is kept in a folder, not in a database");
    struct state *state = array_new(1, sizeof(*state), "the state");
    if (!state)
        return ERROR_MEMORY;
    state->lock_descriptor = -1;
    state->folder = strdup(folder);
    state->lock_path = state_path(folder, "lock");
    if (!state->folder || !state->lock_path) {
        error = error_set_memory(strlen(folder), "the path of the state folder");
        goto out;
    }
    state->folders_there = file_folders_there(folder);
    state->may_undo = true;
    error = file_make_folders(folder);
    state->is_remote = remote_disk_holds(folder);
    if (!error)
        error = lock_folder(state);
    if (!error)
        error = find_file(state, "journal", &has_journal);
    if (!error && !has_journal)
        error = check_beginning(state);
    if (!error) {
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
    if (state->may_undo)
        undo(state);
    if (state->lock_descriptor >= 0)
        close(state->lock_descriptor); /* unlocks */
    free(state->folder);
    free(state->lock_path);
    free(state);
}

const char *state_folder(const struct state *state)
{
    return state->folder;
}
