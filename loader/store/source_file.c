/* SPDX-License-Identifier: MIT */
#include "loader/store/source_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define ATTEMPTS 8
#define FIRST_PAUSE_MS 50

static enum error refuse_change(const char *path, const struct file_identity *then,
                                const struct file_identity *now)
{
    if (then->size_bytes != now->size_bytes)
        return error_set(
            ERROR_INPUT, "%s has changed since it was opened: it had %llu bytes, now it has %llu",
            path, (unsigned long long)then->size_bytes, (unsigned long long)now->size_bytes);
    if (then->inode != now->inode || then->device != now->device)
        return error_set(ERROR_INPUT, "%s was replaced by another file since it was opened", path);
    return error_set(ERROR_INPUT, "%s was written to since it was opened", path);
}

/* Before opening: opening a pipe waits for its writer. */
static enum error check_kind(const char *path)
{
    struct stat status;
    if (stat(path, &status) || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return OK; /* opening the file reports the error */
    return error_set(ERROR_INPUT,
                     "%s is not a regular file: rows are read by position, and more than once",
                     path);
}

/* The current identity, by path if there is no descriptor. */
static enum error look(const struct source_file *file, struct file_identity *ret_identity)
{
    return file->door ? file_identity_at(file->path, ret_identity)
                      : file_identity_of(file->descriptor, file->path, ret_identity);
}

/* By a door, whose file is identified by its path: another one may get that name meanwhile. Or it
 * has had the name for some seconds: NFS knows that only once the path is opened, so that a second
 * look tells. */
static enum error open_door(struct source_file *file)
{
    struct file_identity before;
    for (bool again = false;; again = true) {
        bool is_there = file_identity_at(file->path, &before) == OK; /* else open() says why */
        enum error error = file->door->open(file->path, &file->handle);
        if (!error)
            error = look(file, &file->identity);
        if (error || !is_there || again || file_identity_equal(&before, &file->identity))
            return error || !is_there ? error : source_file_expect(file, &before);
        file->door->close(file->handle);
        file->handle = NULL;
    }
}

static enum error open_descriptor(struct source_file *file)
{
    enum error error = file_open_read(file->path, &file->descriptor);
    return error ? error : look(file, &file->identity);
}

/* Of a file without handle and descriptor. */
static enum error open_path(struct source_file *file, const struct file_identity *expected)
{
    enum error error = check_kind(file->path);
    if (!error)
        error = file->door ? open_door(file) : open_descriptor(file);
    return error || !expected ? error : source_file_expect(file, expected);
}

enum error source_file_open_by(struct source_file *file, const struct source_door *door,
                               const char *path, const struct file_identity *expected)
{
    char *copy = strdup(path);
    *file = (struct source_file){.path = copy, .descriptor = -1, .door = door};
    if (!copy)
        return error_set_memory(strlen(path), "a file's name");
    enum error error = open_path(file, expected);
    if (error)
        source_file_close(file);
    return error;
}

enum error source_file_open(struct source_file *file, const char *path,
                            const struct file_identity *expected)
{
    return source_file_open_by(file, NULL, path, expected);
}

enum error source_file_expect(const struct source_file *file, const struct file_identity *expected)
{
    return file_identity_equal(expected, &file->identity)
               ? OK
               : refuse_change(file->path, expected, &file->identity);
}

static void let_go(struct source_file *file)
{
    if (file->handle)
        file->door->close(file->handle);
    if (file->path && file->descriptor >= 0)
        close(file->descriptor);
}

void source_file_close(struct source_file *file)
{
    let_go(file);
    free(file->path);
    *file = (struct source_file){.descriptor = -1};
}

enum error source_file_check(const struct source_file *file)
{
    struct file_identity now;
    if (look(file, &now))
        return OK; /* a server is away: the next read gets the same error, and retries */
    /* A door is checked by its path: another file may have that name now, while the opened one has
     * not changed. */
    bool renamed =
        file->door && (file->identity.inode != now.inode || file->identity.device != now.device);
    return renamed || file_identity_equal(&file->identity, &now)
               ? OK
               : refuse_change(file->path, &file->identity, &now);
}

static enum error pause_before(int attempt)
{
    if (stop_wait(clock_deadline_ns((int64_t)FIRST_PAUSE_MS << attempt)))
        return error_set(ERROR_CANCELLED, "stopped while waiting for a file to become readable");
    return OK;
}

/* Opens the path again after a read failed for `reason`, if it is still the same file. */
static enum error open_again(struct source_file *file, int attempt,
                             const struct error_report *reason)
{
    struct source_file again = {.path = file->path, .descriptor = -1, .door = file->door};
    if (attempt >= ATTEMPTS) {
        enum error code = error_restore(reason);
        return error_prefix(code, "after %d attempts: ", attempt + 1);
    }
    enum error error = pause_before(attempt);
    if (error)
        return error;
    log_warning("%s; trying again", reason->message);
    error = open_path(&again, &file->identity);
    let_go(error ? &again : file);
    if (!error)
        *file = again;
    return error == ERROR_IO ? OK : error; /* still unreachable: the next read fails, and retries */
}

static enum error refuse_end(const struct source_file *file, uint64_t end, uint64_t expected)
{
    enum error error = source_file_check(file); /* most likely it was truncated meanwhile */
    return error ? error
                 : error_set(ERROR_INPUT, "%s ends at byte %llu, %llu were expected", file->path,
                             (unsigned long long)end, (unsigned long long)expected);
}

static ssize_t read_some(const struct source_file *file, void *out, size_t bytes, uint64_t offset)
{
    return file->door ? file->door->read(file->handle, out, bytes, offset)
                      : pread(file->descriptor, out, bytes, (off_t)offset);
}

/* Like file_read_at(), but separates transient errors from permanent ones. */
static enum error read_once(const struct source_file *file, void *out, size_t bytes,
                            uint64_t offset, bool *ret_again)
{
    size_t done = 0;
    *ret_again = false;
    while (done < bytes) {
        ssize_t got = read_some(file, (char *)out + done, bytes - done, offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            *ret_again = errno == EIO || errno == ESTALE || errno == ETIMEDOUT;
            return error_set_errno(ERROR_IO, errno, "cannot read %zu bytes at byte %llu of %s",
                                   bytes, (unsigned long long)offset, file->path);
        }
        if (got == 0)
            return refuse_end(file, offset + done, offset + bytes);
        done += (size_t)got;
    }
    return OK;
}

enum error source_file_read(struct source_file *file, void *out, size_t bytes, uint64_t offset)
{
    bool again = false;
    enum error error = read_once(file, out, bytes, offset, &again);
    for (int attempt = 0; error && again && !file->is_copy; attempt++) {
        struct error_report report;
        error_report_take(error, &report);
        error = open_again(file, attempt, &report);
        if (!error)
            error = read_once(file, out, bytes, offset, &again);
        else
            again = false;
    }
    return error;
}
