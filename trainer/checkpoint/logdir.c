/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/logdir.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/file.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/text.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/checkpoint/logdir_lock.h"

#define STATE_NAME "checkpoint"
#define PREFIX "model.ckpt-"
#define SUFFIX ".safetensors"
#define STATE_LIMIT_BYTES (1 << 20)
#define TRIES 5       /* by a reader whose file a trainer removed meanwhile */
#define SAVE_MS 15000 /* the longest that a save may take after a signal */

struct logdir {
    char *path;
    struct logdir_lock lock; /* not locked: opened for reading */
    bool named;              /* the state is from the file, not guessed */
    struct checkpoint_state state;
    char *newest_path; /* the newest that was opened or written; NULL: none */
    int64_t newest_step;
};

/* PATH/NAME; an absolute name stays. NULL: error is set. free() it. */
static char *join(const struct logdir *logdir, const char *name)
{
    size_t bytes = strlen(logdir->path) + strlen(name) + 2;
    char *path = array_new(bytes, 1, "a path");
    if (path && name[0] == '/')
        snprintf(path, bytes, "%s", name);
    else if (path)
        snprintf(path, bytes, "%s/%s", logdir->path, name);
    return path;
}

/* The step of model.ckpt-<step>.safetensors; -1 for every other name. */
static int64_t step_of(const char *name)
{
    size_t length = strlen(name), ends = strlen(PREFIX) + strlen(SUFFIX);
    int64_t step;
    if (length <= ends || strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        strcmp(name + length - strlen(SUFFIX), SUFFIX) != 0 ||
        !text_parse_integer(name + strlen(PREFIX), length - ends, 0, INT64_MAX, &step))
        return -1;
    return step;
}

static bool is_left_over(const char *name)
{
    return (strncmp(name, PREFIX, strlen(PREFIX)) == 0 ||
            strncmp(name, STATE_NAME ".", strlen(STATE_NAME ".")) == 0) &&
           strstr(name, ".tmp.");
}

static enum error open_folder(const struct logdir *logdir, DIR **ret_folder)
{
    *ret_folder = opendir(logdir->path);
    if (!*ret_folder)
        return error_set_errno(ERROR_IO, errno, "cannot read the folder %s", logdir->path);
    return OK;
}

/* Removes what an interrupted save left. */
static enum error clean(const struct logdir *logdir)
{
    DIR *folder;
    enum error error = open_folder(logdir, &folder);
    if (error)
        return error;
    const struct dirent *entry;
    while ((entry = readdir(folder)))
        if (is_left_over(entry->d_name) && unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            log_info("%s: removed %s, which an interrupted save left", logdir->path, entry->d_name);
    closedir(folder);
    return OK;
}

static int compare_steps(const void *a, const void *b)
{
    int64_t ours = step_of(*(char *const *)a), other = step_of(*(char *const *)b);
    return (ours > other) - (ours < other);
}

/* Without the file `checkpoint`: lists all checkpoints in the folder, by their steps. */
static enum error list_found(struct logdir *logdir)
{
    struct checkpoint_state *state = &logdir->state;
    DIR *folder;
    enum error error = open_folder(logdir, &folder);
    if (error)
        return error;
    const struct dirent *entry;
    while (!error && (entry = readdir(folder)))
        if (step_of(entry->d_name) >= 0)
            error = checkpoint_state_add(state, entry->d_name);
    closedir(folder);
    if (state->count > 0)
        qsort(state->names, state->count, sizeof(*state->names), compare_steps);
    return error;
}

/* NULL: error is set. */
static struct logdir *new_logdir(const char *path)
{
    struct logdir *logdir = array_new(1, sizeof(*logdir), "a logdir");
    if (!logdir)
        return NULL;
    logdir->lock = (struct logdir_lock)LOGDIR_LOCK_INIT;
    logdir->newest_step = -1;
    logdir->path = strdup(path);
    if (logdir->path)
        return logdir;
    free(logdir);
    error_set_memory(strlen(path), "a path");
    return NULL;
}

/* May end the process: like kill -9, that leaves a logdir from which the next start can go on. */
static void begin_wait(struct hang *hang, const char *path)
{
    hang_begin(hang, HANG_MS, "while the logdir %s does not answer", path);
    hang_warn(hang);
}

static enum error make_folder(const char *path)
{
    struct hang hang;
    begin_wait(&hang, path);
    enum error error = file_make_folders(path);
    hang_end(&hang);
    return error;
}

/* The lock logs its own waits. */
static enum error take_lock(struct logdir *logdir, int64_t patience_ms)
{
    struct hang hang;
    hang_begin(&hang, HANG_MS, "while the logdir %s does not answer", logdir->path);
    enum error error = logdir_lock_take(logdir->path, patience_ms, &logdir->lock);
    hang_end(&hang);
    return error;
}

/* Removes what interrupted saves left, and makes the folder durable. */
static enum error tidy(const struct logdir *logdir)
{
    struct hang hang;
    begin_wait(&hang, logdir->path);
    enum error error = clean(logdir);
    if (!error)
        file_sync_above(logdir->path);
    hang_end(&hang);
    return error;
}

enum error logdir_open(const char *path, int64_t patience_ms, struct logdir **ret_logdir)
{
    struct logdir *logdir = new_logdir(path);
    if (!logdir)
        return ERROR_MEMORY;
    enum error error = make_folder(path);
    if (!error)
        error = take_lock(logdir, patience_ms);
    if (!error)
        error = tidy(logdir);
    if (error)
        logdir_close(logdir);
    else
        *ret_logdir = logdir;
    return error;
}

enum error logdir_open_read(const char *path, struct logdir **ret_logdir)
{
    struct logdir *logdir;
    struct stat status;
    if (stat(path, &status))
        return error_set_errno(ERROR_IO, errno, "the logdir %s", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(ERROR_INPUT, "the logdir %s is not a folder", path);
    logdir = new_logdir(path);
    if (!logdir)
        return ERROR_MEMORY;
    *ret_logdir = logdir;
    return OK;
}

void logdir_close(struct logdir *logdir)
{
    if (!logdir)
        return;
    logdir_lock_release(&logdir->lock);
    checkpoint_state_release(&logdir->state);
    free(logdir->newest_path);
    free(logdir->path);
    free(logdir);
}

const char *logdir_newest_path(const struct logdir *logdir)
{
    return logdir->newest_path ? logdir->newest_path : "";
}

int64_t logdir_newest_step(const struct logdir *logdir)
{
    return logdir->newest_step;
}

enum error logdir_say_not_saved(const struct logdir *logdir, int64_t step, enum error error)
{
    if (logdir->newest_step < 0)
        return error_prefix(error, "step %" PRId64 " was not saved: ", step);
    return error_prefix(
        error,
        "step %" PRId64 " was not saved, training can go on from step %" PRId64 " (%s): ", step,
        logdir->newest_step, logdir->newest_path);
}

static enum error say_way_out(enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    return error_set(
        error,
        "%.700s; remove that file to go on from the checkpoint with the largest step, "
        "name one in it (model_checkpoint_path: \"NAME\"), or take another --logdir to "
        "start over",
        report.message);
}

/* Reads the file `checkpoint` into logdir->state. Without it the checkpoint with the largest step
 * counts, which is logged if `tells`. */
static enum error read_state(struct logdir *logdir, bool tells)
{
    struct buffer text = BUFFER_INIT(STATE_LIMIT_BYTES);
    char *path = join(logdir, STATE_NAME);
    if (!path)
        return ERROR_MEMORY;
    checkpoint_state_release(&logdir->state);
    logdir->named = false;
    enum error error = file_read_whole(path, &text);
    if (!error) {
        error =
            checkpoint_state_parse(&logdir->state, text.data ? text.data : "", text.length, path);
        logdir->named = !error;
        if (error == ERROR_INPUT)
            error = say_way_out(error);
    } else if (error == ERROR_NOT_FOUND) {
        error = list_found(logdir);
        if (!error && tells && logdir->state.count > 0)
            log_warning("%s is not there; %s has the largest step and is taken", path,
                        logdir->state.names[logdir->state.newest]);
    }
    buffer_release(&text);
    free(path);
    return error;
}

/* A file without a digest may be read, but not trained on. */
static enum error open_checkpoint(const struct logdir *logdir, const char *path,
                                  struct checkpoint **ret)
{
    return logdir->lock.descriptor < 0 ? checkpoint_open_foreign(path, ret)
                                       : checkpoint_open(path, ret);
}

/* Opens names[index], also one without a suffix, as TensorFlow names checkpoints. */
static enum error open_named(const struct logdir *logdir, size_t index, struct checkpoint **ret)
{
    const char *name = logdir->state.names[index];
    size_t bytes = strlen(name) + sizeof(SUFFIX);
    char *path = join(logdir, name), *longer = NULL;
    enum error error = path ? open_checkpoint(logdir, path, ret) : ERROR_MEMORY;
    if (error == ERROR_NOT_FOUND && step_of(name) < 0) {
        longer = array_new(bytes, 1, "a path");
        if (longer) {
            snprintf(longer, bytes, "%s" SUFFIX, name);
            free(path);
            path = join(logdir, longer);
        }
        error = longer && path ? open_checkpoint(logdir, path, ret) : ERROR_MEMORY;
    }
    free(longer);
    free(path);
    return error;
}

/* The newest is damaged: reports which older one could be used instead. */
static enum error refuse_damaged(struct logdir *logdir, size_t damaged)
{
    struct error_report report;
    error_report_take(ERROR_INPUT, &report);
    enum error error;
    for (size_t i = damaged; i-- > 0;) {
        struct checkpoint *other = NULL;
        if (open_named(logdir, i, &other))
            continue;
        error = error_set(ERROR_INPUT,
                          "%.700s; %s is whole: to go on from its step %" PRId64
                          ", remove or rename the damaged file",
                          report.message, checkpoint_path(other), checkpoint_step(other));
        checkpoint_close(other);
        return error;
    }
    return error_set(ERROR_INPUT,
                     "%.700s; no older checkpoint in %s is whole: to start over, take another "
                     "--logdir",
                     report.message, logdir->path);
}

/* All that `checkpoint` names is missing, as in a copy that was made while the training saved: says
 * whether other checkpoints are there. */
static enum error refuse_absent(struct logdir *logdir)
{
    struct checkpoint_state *state = &logdir->state;
    struct error_report report;
    enum error error = error_set(
        ERROR_NOT_FOUND, "%s/" STATE_NAME " names %s, which is not there, nor are the older ones",
        logdir->path, state->names[state->newest]);
    error_report_take(error, &report);
    checkpoint_state_release(state);
    if (list_found(logdir) || state->count == 0)
        return error_set(error, "%.700s; to start over, take another --logdir", report.message);
    return error_set(error, "%.700s; remove %s/" STATE_NAME " to go on from %s", report.message,
                     logdir->path, state->names[state->newest]);
}

/* *ret_passed: the newest named file is missing, and an older one was opened. */
static enum error open_newest(struct logdir *logdir, struct checkpoint **ret_checkpoint,
                              bool *ret_passed)
{
    const struct checkpoint_state *state = &logdir->state;
    enum error error = ERROR_NOT_FOUND;
    for (size_t i = state->newest + 1; i-- > 0 && error == ERROR_NOT_FOUND;) {
        error = open_named(logdir, i, ret_checkpoint);
        if (error == ERROR_INPUT)
            return refuse_damaged(logdir, i);
        *ret_passed = i < state->newest;
        if (!error && i < state->newest)
            log_warning("%s/" STATE_NAME " names %s, which is not there; going on from %s",
                        logdir->path, state->names[state->newest], state->names[i]);
    }
    return error == ERROR_NOT_FOUND ? refuse_absent(logdir) : error;
}

static enum error keep_newest(struct logdir *logdir, const char *path, int64_t step)
{
    char *copy = strdup(path);
    if (!copy)
        return error_set_memory(strlen(path), "a path");
    free(logdir->newest_path);
    logdir->newest_path = copy;
    logdir->newest_step = step;
    return OK;
}

static enum error write_state(const struct logdir *logdir)
{
    struct buffer text = BUFFER_INIT(STATE_LIMIT_BYTES);
    char *path = join(logdir, STATE_NAME);
    enum error error = path ? checkpoint_state_print(&logdir->state, &text) : ERROR_MEMORY;
    if (!error)
        error = file_write_whole(path, text.data, text.length);
    buffer_release(&text);
    free(path);
    return error;
}

/* false: the file is still there. Files with names of other forms are not ours: they are kept, and
 * only forgotten. */
static bool remove_file(const struct logdir *logdir, const char *name)
{
    if (step_of(name) < 0)
        return true;
    char *path = join(logdir, name);
    bool gone = path && (unlink(path) == 0 || errno == ENOENT);
    if (path && !gone)
        log_warning("cannot remove the old checkpoint %s: %s", path, strerror(errno));
    free(path);
    return gone;
}

/* Removes all but the last LOGDIR_KEPT, each file before its name: after a kill in between, the
 * name is still there, and the removal is repeated. */
static void remove_old(struct logdir *logdir)
{
    struct checkpoint_state *state = &logdir->state;
    size_t excess = state->count > LOGDIR_KEPT ? state->count - LOGDIR_KEPT : 0, at = 0;
    bool changed = false;
    for (; excess > 0 && at != state->newest; excess--) {
        if (remove_file(logdir, state->names[at])) {
            checkpoint_state_remove(state, at);
            changed = true;
        } else {
            at++;
        }
    }
    if (changed && write_state(logdir))
        log_warning("%s/" STATE_NAME " still names checkpoints that were removed: %s", logdir->path,
                    error_message());
}

/* Does the state name the file, with a folder or without, with an ending or not? */
static bool is_named(const struct checkpoint_state *state, const char *file)
{
    size_t stem = strlen(file) - strlen(SUFFIX);
    for (size_t i = 0; i < state->count; i++) {
        const char *slash = strrchr(state->names[i], '/');
        const char *name = slash ? slash + 1 : state->names[i];
        if (strcmp(name, file) == 0 || (strlen(name) == stem && strncmp(name, file, stem) == 0))
            return true;
    }
    return false;
}

/* A kill after a save's rename and before its naming leaves a file that nothing names; once
 * training has passed its step, nobody needs it. A newer one stays: it is complete, but
 * `checkpoint` decides, and the same steps will be made again, with the same bytes. */
static void remove_orphans(const struct logdir *logdir)
{
    const char *newest = logdir->state.names[logdir->state.newest];
    DIR *folder = step_of(newest) >= 0 ? opendir(logdir->path) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        int64_t step = step_of(entry->d_name);
        if (step < 0 || is_named(&logdir->state, entry->d_name))
            continue;
        if (step > logdir->newest_step)
            log_info("%s/%s is not named by " STATE_NAME ", which counts; it is left as it is",
                     logdir->path, entry->d_name);
        else if (remove_file(logdir, entry->d_name))
            log_info("%s: removed %s, which an interrupted save left", logdir->path, entry->d_name);
    }
    if (folder)
        closedir(folder);
}

static enum error find_newest(struct logdir *logdir, struct checkpoint **ret_checkpoint)
{
    struct checkpoint *checkpoint = NULL;
    bool passed = false;
    enum error error = OK;
    for (int i = 0; i < TRIES; i++) {
        error = read_state(logdir, true);
        if (error)
            return error;
        if (logdir->state.count == 0) {
            *ret_checkpoint = NULL;
            return OK;
        }
        error = open_newest(logdir, &checkpoint, &passed);
        if (error != ERROR_NOT_FOUND || logdir->lock.descriptor >= 0)
            break;
    }
    if (!error)
        error = keep_newest(logdir, checkpoint_path(checkpoint), checkpoint_step(checkpoint));
    if (error)
        checkpoint_close(checkpoint);
    else
        *ret_checkpoint = checkpoint;
    if (!error && logdir->lock.descriptor >= 0 && !passed && logdir->named) {
        remove_old(logdir);
        remove_orphans(logdir);
    }
    return error;
}

enum error logdir_newest(struct logdir *logdir, struct checkpoint **ret_checkpoint)
{
    struct hang hang;
    begin_wait(&hang, logdir->path);
    enum error error = find_newest(logdir, ret_checkpoint);
    hang_end(&hang);
    return error;
}

/* Names `name` in the state file, which completes the save. Old ones stay named until removed. */
static enum error publish(struct logdir *logdir, const char *name)
{
    struct hang hang;
    enum error error = checkpoint_state_add(&logdir->state, name);
    if (!error)
        error = logdir_lock_check(&logdir->lock, logdir->path);
    if (!error)
        error = write_state(logdir);
    hang_begin(&hang, HANG_MS, "after %s was saved: the logdir %s does not answer", name,
               logdir->path);
    if (!error)
        remove_old(logdir);
    hang_end(&hang);
    return error;
}

/* After a save that failed, maybe after the file got its name: reads the list from disk again, and
 * removes the file if it is not named there; without a file `checkpoint`, if it was not listed
 * before (`was_listed`). If it cannot be read, or the folder is not this trainer's (any more, or
 * while its disk is not mounted), the list and the file stay. Keeps the error's message, which may
 * tell that the file is there: that it was removed precedes it. */
static void undo(struct logdir *logdir, const char *name, const char *path, bool was_listed,
                 enum error error)
{
    struct checkpoint_state before = logdir->state;
    struct error_report report;
    bool is_removed = false;
    error_report_take(error, &report);
    logdir->state = (struct checkpoint_state)CHECKPOINT_STATE_INIT;
    if (logdir_lock_check(&logdir->lock, logdir->path) || read_state(logdir, false)) {
        checkpoint_state_release(&logdir->state);
        logdir->state = before;
    } else {
        checkpoint_state_release(&before);
        bool is_listed = checkpoint_state_find(&logdir->state, name, NULL);
        is_removed = !(is_listed && (logdir->named || was_listed)) && unlink(path) == 0;
        if (is_removed && is_listed)
            (void)read_state(logdir, false); /* without it */
    }
    (void)error_restore(&report);
    if (is_removed)
        (void)error_prefix(error, "%s was removed again: ", name);
}

static void begin_save(const struct logdir *logdir, int64_t step, struct hang *hang)
{
    if (logdir->newest_step < 0)
        hang_begin(hang, SAVE_MS,
                   "before step %" PRId64 " was saved: the logdir's disk does not answer; there is "
                   "no checkpoint in %s yet",
                   step, logdir->path);
    else
        hang_begin(hang, SAVE_MS,
                   "before step %" PRId64 " was saved: the logdir's disk does not answer; %s (step "
                   "%" PRId64 ") is the newest checkpoint that is whole",
                   step, logdir->newest_path, logdir->newest_step);
}

enum error logdir_save(struct logdir *logdir, const struct checkpoint_snapshot *snapshot)
{
    int64_t step = checkpoint_snapshot_step(snapshot);
    char name[64];
    snprintf(name, sizeof(name), PREFIX "%" PRId64 SUFFIX, step);
    char *path = join(logdir, name);
    if (!path)
        return ERROR_MEMORY;
    struct hang hang;
    bool was_listed = checkpoint_state_find(&logdir->state, name, NULL);
    begin_save(logdir, step, &hang);
    enum error error = logdir_lock_check(&logdir->lock, logdir->path);
    if (!error) {
        error = checkpoint_snapshot_write(snapshot, path);
        if (!error)
            error = publish(logdir, name);
        if (error)
            undo(logdir, name, path, was_listed, error);
    }
    hang_end(&hang);
    if (!error)
        error = keep_newest(logdir, path, step);
    free(path);
    return error;
}

/* The identity of the file `checkpoint`, which each save replaces; all zeros: there is none. */
static struct file_identity state_identity(const struct logdir *logdir)
{
    struct file_identity identity = {.inode = 0};
    char *path = join(logdir, STATE_NAME);
    if (path && file_identity_at(path, &identity))
        identity = (struct file_identity){.inode = 0};
    free(path);
    return identity;
}

/* Does the newest checkpoint end the training? One that does not, or is damaged, is not read again:
 * `*seen` is a hash of its name and its save. */
static bool is_trained(struct logdir *logdir, int64_t train_steps, enum logdir_end ends,
                       uint64_t *seen)
{
    struct checkpoint *newest = NULL;
    const struct file_identity identity = state_identity(logdir);
    if (read_state(logdir, false) || logdir->state.count == 0)
        return false;
    const char *name = logdir->state.names[logdir->state.newest];
    uint64_t now =
        XXH3_64bits_withSeed(&identity, sizeof(identity), XXH3_64bits(name, strlen(name)));
    enum error error = now == *seen ? OK : logdir_newest(logdir, &newest);
    bool trained = newest && checkpoint_step(newest) >= train_steps;
    bool ended = newest && checkpoint_get_facts(newest)->position.ended;
    bool stopped = newest && checkpoint_was_stopped(newest);
    checkpoint_close(newest);
    if (!trained && !ended && (!error || error == ERROR_INPUT))
        *seen = now;
    return trained || (ended && ends >= LOGDIR_ENDED) || (stopped && ends >= LOGDIR_STOPPED);
}

bool logdir_is_trained(const char *path, int64_t train_steps, enum logdir_end ends, uint64_t *seen)
{
    struct logdir *logdir = NULL;
    struct hang hang;
    begin_wait(&hang, path);
    enum error error = logdir_open_read(path, &logdir);
    bool trained = !error && logdir && is_trained(logdir, train_steps, ends, seen);
    logdir_close(logdir);
    hang_end(&hang);
    return trained;
}

/* ---- the best model ----------------------------------------------------- */

enum error logdir_save_best(const struct logdir *logdir, const struct checkpoint_snapshot *snapshot)
{
    char *path = join(logdir, LOGDIR_BEST);
    if (!path)
        return ERROR_MEMORY;
    struct hang hang;
    hang_begin(&hang, SAVE_MS,
               "before %s was written: its disk does not answer; the other checkpoints are as "
               "they were",
               path);
    enum error error = logdir_lock_check(&logdir->lock, logdir->path);
    if (!error)
        error = checkpoint_snapshot_write(snapshot, path);
    hang_end(&hang);
    free(path);
    return error;
}

static enum error say_best_is_damaged(void)
{
    struct error_report report;
    error_report_take(ERROR_INPUT, &report);
    return error_set(ERROR_INPUT,
                     "%.700s; remove that file to go on without it: the best model from then on is "
                     "kept, and the other checkpoints are as they were",
                     report.message);
}

enum error logdir_best(const struct logdir *logdir, struct checkpoint **ret_checkpoint)
{
    char *path = join(logdir, LOGDIR_BEST);
    enum error error = path ? checkpoint_open(path, ret_checkpoint) : ERROR_MEMORY;
    free(path);
    if (error == ERROR_INPUT)
        return say_best_is_damaged();
    if (error != ERROR_NOT_FOUND)
        return error;
    *ret_checkpoint = NULL;
    return OK;
}
