/* SPDX-License-Identifier: MIT */
/*
 * The temporary file is created with O_EXCL: writers in several processes, even in containers that
 * share process numbers and a network file system, never share one. A writer locks it from its
 * first moment on. After kill -9, PATH.tmp.<pid>.<n> remains without a lock and is never read; the
 * next writer of PATH removes it.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"

#define PENDING_BYTES (1 << 20)
#define NAMES_TRIED 1000

struct file_writer {
    char *path;      /* owned */
    char *temporary; /* owned */
    char *pending;   /* owned; PENDING_BYTES */
    size_t pending_bytes;
    uint64_t written_bytes; /* in the file already */
    int descriptor;
    struct stat replaced; /* the file of that name; zeroed: there was none */
    bool committed;
};

static _Atomic unsigned next_number;

/* The folder of `path`, "." if none is named; free() it. NULL: the error is set. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!folder)
        error_set_memory(strlen(path), "a folder's name");
    return folder;
}

/* ---- what killed writers left ------------------------------------------- */

/* "<pid>.<n>", and nothing else. */
static bool is_number_pair(const char *text)
{
    size_t first = strspn(text, "0123456789");
    if (first == 0 || text[first] != '.')
        return false;
    size_t second = strspn(text + first + 1, "0123456789");
    return second > 0 && text[first + 1 + second] == '\0';
}

static void remove_if_left(int folder, const char *name, const char *path)
{
    int descriptor = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && unlinkat(folder, name, 0) == 0)
        log_warning("removed %s, which a killed program left while it wrote %s", name, path);
    close(descriptor);
}

/* Files that cannot be locked or removed stay. */
static enum error remove_leftovers(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    char *folder = folder_of(path);
    if (!folder)
        return ERROR_MEMORY;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, base, length) == 0 &&
            strncmp(entry->d_name + length, ".tmp.", 5) == 0 &&
            is_number_pair(entry->d_name + length + 5))
            remove_if_left(dirfd(entries), entry->d_name, path);
    }
    if (entries)
        closedir(entries);
    free(folder);
    return OK;
}

/* ---- opening ------------------------------------------------------------ */

/* False: another writer took it for a leftover before it was locked. File systems without locks
 * return another error; nothing is ever removed there. */
static bool lock(int descriptor)
{
    struct stat status;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

/* Another group gets none of the permissions that all do not have. */
static mode_t for_another_group(mode_t mode)
{
    return mode & (0707 | (mode & 07) << 3);
}

/* Nobody else may read or write it meanwhile than the file that it replaces. */
static int create_exclusively(const struct file_writer *writer)
{
    bool replaces = S_ISREG(writer->replaced.st_mode);
    mode_t mode = replaces ? for_another_group(writer->replaced.st_mode) | 0600 : 0666;
    return open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

static enum error create_temporary(struct file_writer *writer)
{
    size_t bytes = strlen(writer->path) + 64;
    writer->temporary = array_new(bytes, 1, "a file's name");
    if (!writer->temporary)
        return ERROR_MEMORY;
    for (int tries = 0; tries < NAMES_TRIED; tries++) {
        snprintf(writer->temporary, bytes, "%s.tmp.%d.%u", writer->path, (int)getpid(),
                 atomic_fetch_add(&next_number, 1));
        writer->descriptor = create_exclusively(writer);
        if (writer->descriptor >= 0 && lock(writer->descriptor))
            return OK;
        if (writer->descriptor < 0 && errno != EEXIST)
            break;
        if (writer->descriptor >= 0)
            close(writer->descriptor);
        writer->descriptor = -1;
        errno = EEXIST;
    }
    enum error error = error_set_errno(ERROR_IO, errno, "cannot create %s (as %s)", writer->path,
                                       writer->temporary);
    free(writer->temporary);
    writer->temporary = NULL; /* nothing to remove */
    return error;
}

/* A rename onto a device, pipe or folder would replace it, or fail at the end. */
static enum error check_place(const char *path, struct stat *ret_replaced)
{
    struct stat status;
    if (!path[0])
        return error_set(ERROR_USAGE, "the name of a file is empty");
    if (stat(path, &status))
        return OK;
    if (!S_ISREG(status.st_mode))
        return error_set(ERROR_USAGE, "%s exists and is not a regular file", path);
    *ret_replaced = status;
    return OK;
}

enum error file_writer_open(const char *path, struct file_writer **ret_writer)
{
    struct stat replaced = {.st_mode = 0};
    enum error error = check_place(path, &replaced);
    if (error)
        return error;
    error = ERROR_MEMORY;
    struct file_writer *writer = array_new(1, sizeof(*writer), "a file writer");
    if (!writer)
        return error;
    writer->descriptor = -1;
    writer->replaced = replaced;
    writer->path = strdup(path);
    if (!writer->path) {
        error_set_memory(strlen(path), "a file's name");
        goto out;
    }
    writer->pending = array_new(PENDING_BYTES, 1, "a file's write buffer");
    if (!writer->pending)
        goto out;
    error = remove_leftovers(path);
    if (!error)
        error = create_temporary(writer);
    if (error)
        goto out;
    *ret_writer = writer;
    writer = NULL;
out:
    file_writer_close(writer);
    return error;
}

void file_writer_close(struct file_writer *writer)
{
    if (!writer)
        return;
    if (writer->temporary && !writer->committed)
        unlink(writer->temporary);
    if (writer->descriptor >= 0) {
        flock(writer->descriptor, LOCK_UN); /* needed if a child of fork(2) has the descriptor */
        close(writer->descriptor);
    }
    free(writer->pending);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

/* ---- writing ------------------------------------------------------------ */

static enum error write_at(struct file_writer *writer, const void *bytes, size_t length,
                           uint64_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t put = pwrite(writer->descriptor, (const char *)bytes + done, length - done,
                             (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return error_set_errno(ERROR_IO, errno, "cannot write %zu bytes at byte %llu of %s",
                                   length, (unsigned long long)offset, writer->path);
        done += (size_t)put;
    }
    return OK;
}

enum error file_writer_flush(struct file_writer *writer)
{
    enum error error =
        write_at(writer, writer->pending, writer->pending_bytes, writer->written_bytes);
    if (error)
        return error;
    writer->written_bytes += writer->pending_bytes;
    writer->pending_bytes = 0;
    return OK;
}

enum error file_writer_add(struct file_writer *writer, const void *bytes, size_t length)
{
    enum error error = OK;
    if (length > PENDING_BYTES - writer->pending_bytes)
        error = file_writer_flush(writer);
    if (error)
        return error;
    if (length > PENDING_BYTES) {
        error = write_at(writer, bytes, length, writer->written_bytes);
        if (!error)
            writer->written_bytes += length;
        return error;
    }
    if (length > 0)
        memcpy(writer->pending + writer->pending_bytes, bytes, length);
    writer->pending_bytes += length;
    return OK;
}

enum error file_writer_patch(struct file_writer *writer, const void *bytes, size_t length,
                             uint64_t offset)
{
    assert(offset <= file_writer_length(writer) && length <= file_writer_length(writer) - offset);
    enum error error = file_writer_flush(writer);
    return error ? error : write_at(writer, bytes, length, offset);
}

enum error file_writer_add_at(struct file_writer *writer, const void *bytes, size_t length,
                              uint64_t offset)
{
    assert(writer->pending_bytes == 0);
    enum error error = write_at(writer, bytes, length, offset);
    if (!error && offset + length > writer->written_bytes)
        writer->written_bytes = offset + length;
    return error;
}

uint64_t file_writer_length(const struct file_writer *writer)
{
    return writer->written_bytes + writer->pending_bytes;
}

const char *file_writer_temporary_path(const struct file_writer *writer)
{
    return writer->temporary;
}

int file_writer_descriptor(const struct file_writer *writer)
{
    return writer->descriptor;
}

/* ---- publishing --------------------------------------------------------- */

/* A rename is durable only once its folder is. File systems that cannot fsync folders return
 * EINVAL; a folder that may be written but not read is synced with all of its file system. If it
 * fails, nobody knows what a disk holds, and renaming back could fail as well: the file stays. */
static enum error sync_folder(const struct file_writer *writer)
{
    char *folder = folder_of(writer->path);
    if (!folder)
        return ERROR_MEMORY;
    enum error error = OK;
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = descriptor >= 0 ? fsync(descriptor) == 0 || errno == EINVAL
                                     : errno == EACCES && syncfs(writer->descriptor) == 0;
    if (!is_synced)
        error = error_set_errno(ERROR_IO, errno,
                                "%s is complete and in its place, but a power cut may bring back "
                                "what was there before: cannot sync its folder",
                                writer->path);
    if (descriptor >= 0)
        close(descriptor);
    free(folder);
    return error;
}

/* Those of the file that is replaced; also its owner, whom root would lock out of a private one. */
static void keep_permissions(const struct file_writer *writer)
{
    const struct stat *replaced = &writer->replaced;
    mode_t mode = replaced->st_mode & 0777;
    if (!S_ISREG(replaced->st_mode))
        return;
    if (fchown(writer->descriptor, replaced->st_uid, replaced->st_gid) &&
        fchown(writer->descriptor, (uid_t)-1, replaced->st_gid))
        mode = for_another_group(mode);
    (void)!fchmod(writer->descriptor, mode); /* some file systems have none */
}

enum error file_writer_sync(struct file_writer *writer)
{
    enum error error = file_writer_flush(writer);
    keep_permissions(writer);
    if (!error && fsync(writer->descriptor))
        error = error_set_errno(ERROR_IO, errno, "cannot sync %llu bytes of %s",
                                (unsigned long long)file_writer_length(writer), writer->path);
    return error;
}

enum error file_writer_publish(struct file_writer *writer)
{
    assert(!writer->committed);
    if (rename(writer->temporary, writer->path))
        return error_set_errno(ERROR_IO, errno, "cannot rename %s to %s", writer->temporary,
                               writer->path);
    writer->committed = true;
    return sync_folder(writer);
}

enum error file_writer_commit(struct file_writer *writer)
{
    enum error error = file_writer_sync(writer);
    return error ? error : file_writer_publish(writer);
}

enum error file_write_whole(const char *path, const void *bytes, size_t length)
{
    struct file_writer *writer = NULL;
    enum error error = file_writer_open(path, &writer);
    if (!error)
        error = file_writer_add(writer, bytes, length);
    if (!error)
        error = file_writer_commit(writer);
    file_writer_close(writer);
    return error;
}
