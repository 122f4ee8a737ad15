/* SPDX-License-Identifier: MIT */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/stop.h"

#define READ_STEP_BYTES (64 << 10)

static struct file_identity identity_of(const struct stat *status)
{
    return (struct file_identity){
        .size_bytes = (uint64_t)status->st_size,
        .modified_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
        .inode = status->st_ino,
        .device = status->st_dev,
    };
}

enum error file_identity_of(int descriptor, const char *path, struct file_identity *ret_identity)
{
    struct stat status;
    if (fstat(descriptor, &status))
        return error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    *ret_identity = identity_of(&status);
    return OK;
}

enum error file_identity_at(const char *path, struct file_identity *ret_identity)
{
    struct stat status;
    if (stat(path, &status))
        return error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    *ret_identity = identity_of(&status);
    return OK;
}

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
    return a->size_bytes == b->size_bytes && a->modified_ns == b->modified_ns &&
           a->inode == b->inode && a->device == b->device;
}

/* ---- opening ------------------------------------------------------------ */

static enum error refuse_kind(const char *path, mode_t mode)
{
    if (S_ISDIR(mode))
        return error_set(ERROR_INPUT, "%s is a folder, a file was expected", path);
    const char *kind = S_ISFIFO(mode)   ? "a pipe"
                       : S_ISLNK(mode)  ? "a symbolic link"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "a device";
    return error_set(ERROR_INPUT, "%s is not a regular file, but %s", path, kind);
}

/* Opening a pipe would wait for its other end. Waiting for a file under a lease (fcntl(2)) is
 * right. */
static int open_at_once(const char *path, int flags)
{
    struct stat status;
    flags |= O_CLOEXEC | O_NOCTTY;
    int descriptor = open(path, flags | O_NONBLOCK, 0666);
    if (descriptor < 0 && errno == EWOULDBLOCK && !stat(path, &status) && S_ISREG(status.st_mode))
        return open(path, flags, 0666);
    return descriptor;
}

/* Is it the end of a `|` or of <(COMMAND)? Nobody else can open that, so it ends. */
static bool is_nameless_pipe(int descriptor, mode_t mode)
{
    struct statfs facts;
    return S_ISFIFO(mode) && fstatfs(descriptor, &facts) == 0 && facts.f_type == PIPEFS_MAGIC;
}

/* Takes the descriptor: closes it unless it is a regular file's. */
static enum error check_kind(int descriptor, const char *path, bool pipes, int *ret_descriptor)
{
    struct stat status;
    enum error error = OK;
    if (fstat(descriptor, &status))
        error = error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    else if (!S_ISREG(status.st_mode) && !(pipes && is_nameless_pipe(descriptor, status.st_mode)))
        error = refuse_kind(path, status.st_mode);
    if (error)
        close(descriptor);
    else
        *ret_descriptor = descriptor;
    return error;
}

/* A socket, or a folder to write to: its kind says more than open()'s error. */
static enum error refuse_open(const char *path, int errno_value, bool follows)
{
    struct stat status;
    if (!*path) /* of a variable that is not set, say */
        return error_set(ERROR_NOT_FOUND, "cannot open a file whose name is empty");
    if ((follows ? stat(path, &status) : lstat(path, &status)) == 0 && !S_ISREG(status.st_mode))
        return refuse_kind(path, status.st_mode);
    const char *home = strncmp(path, "~/", 2) == 0
                           ? " (a shell replaces ~ only where a word begins: write the folder)"
                           : "";
    return error_set_errno(ERROR_IO, errno_value, "cannot open %s%s", path, home);
}

static enum error open_to_read(const char *path, bool pipes, int *ret_descriptor)
{
    int descriptor = open_at_once(path, O_RDONLY);
    if (descriptor < 0)
        return refuse_open(path, errno, true);
    return check_kind(descriptor, path, pipes, ret_descriptor);
}

enum error file_open_read(const char *path, int *ret_descriptor)
{
    return open_to_read(path, false, ret_descriptor);
}

enum error file_as_input(enum error error, const char *path)
{
    return error == ERROR_IO && access(path, R_OK) && errno == EACCES ? ERROR_INPUT : error;
}

enum error file_open_own(const char *path, int flags, int *ret_descriptor)
{
    int descriptor = open_at_once(path, flags | O_NOFOLLOW);
    if (descriptor < 0)
        return refuse_open(path, errno, false);
    return check_kind(descriptor, path, false, ret_descriptor);
}

int file_open_unnamed(const char *folder)
{
    char path[PATH_MAX];
    int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0)
        return descriptor;
    if (snprintf(path, sizeof(path), "%s/tombola-XXXXXX", folder) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    descriptor = mkostemp(path, O_CLOEXEC); /* file systems without O_TMPFILE */
    if (descriptor >= 0)
        unlink(path);
    return descriptor;
}

/* ---- reading ------------------------------------------------------------ */

char *file_real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno != ENOMEM)
        real = strdup(path);
    if (!real)
        error_set_memory(strlen(path), "a file's name");
    return real;
}

enum error file_read_at(int descriptor, const char *path, void *out, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(descriptor, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(ERROR_IO, errno, "cannot read %zu bytes at byte %llu of %s",
                                   bytes, (unsigned long long)offset, path);
        if (got == 0)
            return error_set(ERROR_INPUT, "%s ends at byte %llu, %llu were expected", path,
                             (unsigned long long)offset + done, (unsigned long long)offset + bytes);
        done += (size_t)got;
    }
    return OK;
}

/* Like read(2), but waits for an empty pipe and then fails with EINTR. */
static ssize_t read_or_wait(int descriptor, void *out, size_t bytes)
{
    ssize_t got = read(descriptor, out, bytes);
    if (got < 0 && errno == EAGAIN) {
        struct pollfd events[] = {{.fd = descriptor, .events = POLLIN},
                                  {.fd = stop_descriptor(), .events = POLLIN}};
        (void)poll(events, 2, -1);
        errno = EINTR;
    }
    return got;
}

static enum error read_step(int descriptor, const char *path, struct buffer *buffer, bool *ret_end)
{
    size_t left = buffer->limit_bytes - buffer->length;
    if (left == 0) { /* at the limit: only the end of the file may follow */
        char byte;
        ssize_t got = read_or_wait(descriptor, &byte, 1);
        if (got > 0)
            return error_set(ERROR_INPUT, "%s is longer than %zu bytes, the most that is read",
                             path, buffer->limit_bytes);
        *ret_end = got == 0;
        return got == 0 || errno == EINTR
                   ? OK
                   : error_set_errno(ERROR_IO, errno, "cannot read %s", path);
    }
    size_t step = left < READ_STEP_BYTES ? left : READ_STEP_BYTES;
    enum error error = buffer_reserve(buffer, step);
    if (error)
        return error_prefix(error, "%s: ", path);
    ssize_t got = read_or_wait(descriptor, buffer->data + buffer->length, step);
    if (got < 0 && errno != EINTR)
        return error_set_errno(ERROR_IO, errno, "cannot read %s", path);
    if (got > 0)
        buffer->length += (size_t)got;
    buffer->data[buffer->length] = '\0';
    *ret_end = got == 0;
    return OK;
}

enum error file_read_whole(const char *path, struct buffer *buffer)
{
    int descriptor;
    buffer_clear(buffer);
    enum error error = open_to_read(path, true, &descriptor);
    if (error)
        return error;
    struct stat status;
    bool waits = fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
    bool end = false;
    while (!error && !end) {
        error = read_step(descriptor, path, buffer, &end);
        if (!error && !end && waits && stop_requested())
            error = error_set(ERROR_CANCELLED, "stopped while reading %s", path);
    }
    close(descriptor);
    return error;
}

/* ---- folders ------------------------------------------------------------ */

enum error file_make_folder(const char *path)
{
    struct stat status;
    if (mkdir(path, 0777) == 0)
        return OK;
    int reason = errno; /* "/" and read-only parents answer EROFS or EACCES though they exist */
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return OK;
        reason = ENOTDIR;
    } else if (reason == EEXIST) {
        reason = errno;
        bool is_link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
        return error_set_errno(ERROR_IO, reason,
                               is_link ? "cannot follow %s, which is a link" : "cannot look at %s",
                               path);
    }
    return error_set_errno(ERROR_IO, reason, "cannot make folder %s", path);
}

enum error file_make_folders(const char *path)
{
    size_t length = strlen(path);
    if (length == 0)
        return error_set(ERROR_USAGE, "the name of a folder is empty");
    char *part = array_new(length + 1, 1, "a folder's name");
    if (!part)
        return ERROR_MEMORY;
    enum error error = OK;
    for (size_t at = 1; at <= length && !error; at++) {
        if (path[at] != '/' && path[at] != '\0')
            continue;
        memcpy(part, path, at);
        part[at] = '\0';
        error = file_make_folder(part);
    }
    free(part);
    return error;
}

/* Does a folder's name end before path[at]? "/" is one too. */
static bool is_end(const char *path, size_t at)
{
    return (path[at] == '/' || path[at] == '\0') && (path[at - 1] != '/' || at == 1);
}

size_t file_folders_there(const char *path)
{
    struct stat status;
    size_t there = 0;
    char *part = strdup(path);
    for (size_t at = 1; part && at <= strlen(path); at++) {
        if (!is_end(path, at))
            continue;
        part[at] = '\0';
        if (stat(part, &status) != 0)
            break;
        there = at;
        part[at] = path[at];
    }
    bool failed = !part;
    free(part);
    return failed ? strlen(path) : there; /* rather leave a folder than take another's */
}

void file_sync_above(const char *path)
{
    char *folder = realpath(path, NULL);
    for (char *slash = folder ? strrchr(folder, '/') : NULL; slash; slash = strrchr(folder, '/')) {
        bool is_top = slash == folder;
        slash[is_top] = '\0';
        int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor >= 0) {
            (void)fsync(descriptor);
            close(descriptor);
        }
        if (is_top)
            break;
    }
    free(folder);
}

void file_remove_folders(const char *path, size_t there)
{
    char *part = strdup(path);
    bool gone = true;
    for (size_t at = strlen(path); part && at > there && gone; at--) {
        if (!is_end(path, at))
            continue;
        part[at] = '\0';
        gone = rmdir(part) == 0 || errno == ENOENT;
    }
    free(part);
}
