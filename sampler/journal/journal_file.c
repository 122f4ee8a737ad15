/* SPDX-License-Identifier: MIT */
/* The journal's system calls. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "sampler/journal/journal_private.h"

#define WRITE_BYTES ((size_t)1 << 20) /* per call */

/* How many calls have returned, over all files: shows progress to a caller that waits for their
 * end. */
static _Atomic uint64_t calls;

/* A limit on file sizes is treated like a full disk: it may be raised. */
static enum error refuse(const struct journal_file *file, int errno_value)
{
    enum error error = errno_value == EFBIG ? ERROR_NO_SPACE : ERROR_IO;
    return error_set_errno(error, errno_value, "cannot write the state %s", file->path);
}

static enum error open_file(struct journal_file *file, const char *path, int flags)
{
    int descriptor;
    enum error error = file_open_own(path, O_RDWR | flags, &descriptor);
    if (error)
        return error_prefix(error, "state: ");
    *file = (struct journal_file){.descriptor = descriptor, .path = path};
    return OK;
}

/* For any version; a journal gets its header after all its other content. */
static bool begins_like_ours(const uint8_t *bytes, size_t length)
{
    static const uint8_t zeros[JOURNAL_MAGIC_BYTES];
    return length == 0 ||
           (length == sizeof(zeros) && (memcmp(bytes, JOURNAL_MAGIC, JOURNAL_VERSION_AT) == 0 ||
                                        memcmp(bytes, zeros, length) == 0));
}

enum error journal_file_check_left(const char *path)
{
    uint8_t bytes[JOURNAL_MAGIC_BYTES];
    int descriptor;
    enum error error = file_open_own(path, O_RDONLY, &descriptor);
    if (error == ERROR_NOT_FOUND)
        return OK;
    if (error)
        return error_prefix(error, "state: ");
    ssize_t length = pread(descriptor, bytes, sizeof(bytes), 0);
    if (length < 0)
        error = error_set_errno(ERROR_IO, errno, "cannot read the state %s", path);
    else if (!begins_like_ours(bytes, (size_t)length))
        error = error_set(ERROR_INPUT,
                          "state: %s is not what a sampler left there, and a journal is written "
                          "under that name; move it away, or give --state a folder of its own",
                          path);
    close(descriptor);
    return error;
}

/* An existing file may have other names, by link(2): it is removed, not overwritten. */
enum error journal_file_create(struct journal_file *file, const char *path)
{
    enum error error = journal_file_check_left(path);
    if (!error && unlink(path) != 0 && errno != ENOENT)
        error = error_set_errno(ERROR_IO, errno, "cannot remove the state %s", path);
    return error ? error : open_file(file, path, O_CREAT | O_EXCL);
}

enum error journal_file_open(struct journal_file *file, const char *path)
{
    return open_file(file, path, 0);
}

bool journal_file_is_there(const struct journal_file *file)
{
    struct stat held, named;
    if (fstat(file->descriptor, &held) != 0)
        return true;
    if (lstat(file->path, &named) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return held.st_ino == named.st_ino && held.st_dev == named.st_dev &&
           (uint64_t)held.st_size >= file->length;
}

bool journal_file_has_name(const struct journal_file *file)
{
    struct stat held, found;
    int named = open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool has = named >= 0 && fstat(file->descriptor, &held) == 0 && fstat(named, &found) == 0 &&
               held.st_ino == found.st_ino && held.st_dev == found.st_dev;
    if (named >= 0)
        close(named);
    return has;
}

void journal_file_close(struct journal_file *file)
{
    if (file->map)
        munmap(file->map, file->room);
    if (file->descriptor >= 0)
        close(file->descriptor);
    *file = (struct journal_file){.descriptor = -1};
}

bool journal_file_dispose(struct journal_file *file, uint64_t most)
{
    if (file->map)
        munmap(file->map, file->room);
    file->map = NULL;
    if (file->length > most && ftruncate(file->descriptor, (off_t)(file->length - most)) == 0) {
        file->length -= most;
        return true;
    }
    journal_file_close(file);
    return false;
}

enum error journal_file_write(const struct journal_file *file, const void *bytes, size_t length,
                              uint64_t offset)
{
    const uint8_t *at = bytes;
    while (length > 0) {
        size_t piece = length < WRITE_BYTES ? length : WRITE_BYTES;
        ssize_t written = pwrite(file->descriptor, at, piece, (off_t)offset);
        calls++;
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return refuse(file, written < 0 ? errno : ENOSPC);
        at += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return OK;
}

uint64_t journal_file_calls(void)
{
    return calls;
}

enum error journal_file_sync(const struct journal_file *file)
{
    int failed = fdatasync(file->descriptor);
    calls++;
    return failed == 0 ? OK : refuse(file, errno);
}

enum error journal_file_push(const struct journal_file *file, uint64_t begin)
{
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (sync_file_range(file->descriptor, (off_t)begin, 0, all) == 0)
        return OK;
    return errno == ENOSYS ? journal_file_sync(file) : refuse(file, errno);
}

/* ---- room --------------------------------------------------------------- */

static enum error allocate(const struct journal_file *file, uint64_t bytes)
{
    int error;
    do {
        error = posix_fallocate(file->descriptor, (off_t)file->ready, (off_t)(bytes - file->ready));
    } while (error == EINTR);
    return error == 0 ? OK : refuse(file, error);
}

/* Blocks that were written once are faster to fdatasync() than merely allocated ones. */
static enum error write_zeros(const struct journal_file *file, uint64_t bytes)
{
    static const uint8_t zeros[64 << 10];
    enum error error = OK;
    for (uint64_t offset = file->ready; offset < bytes && !error; offset += sizeof(zeros)) {
        uint64_t length = bytes - offset < sizeof(zeros) ? bytes - offset : sizeof(zeros);
        error = journal_file_write(file, zeros, (size_t)length, offset);
    }
    return error;
}

static enum error prepare(struct journal_file *file, uint64_t bytes, bool maps)
{
    enum error error = allocate(file, bytes);
    if (!error && !maps)
        error = write_zeros(file, bytes);
    if (error)
        return error;
    file->ready = bytes;
    if (file->length < bytes)
        file->length = bytes;
    return OK;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

uint64_t journal_file_step(uint64_t bytes)
{
    uint64_t step = bytes / 4;
    if (step < JOURNAL_STEP_LEAST_BYTES)
        step = JOURNAL_STEP_LEAST_BYTES;
    return step > JOURNAL_STEP_MOST_BYTES ? JOURNAL_STEP_MOST_BYTES : step;
}

enum error journal_file_prepare(struct journal_file *file, uint64_t bytes, bool maps)
{
    if (bytes <= file->ready)
        return OK;
    uint64_t wanted = round_up(bytes + journal_file_step(bytes), JOURNAL_PAGE_BYTES);
    enum error error = prepare(file, wanted, maps);
    uint64_t least = round_up(bytes, JOURNAL_PAGE_BYTES);
    return error == ERROR_NO_SPACE && least < wanted ? prepare(file, least, maps) : error;
}

enum error journal_file_grow(struct journal_file *file, uint64_t bytes, bool maps)
{
    if (bytes <= file->room)
        return OK;
    enum error error = journal_file_prepare(file, bytes, maps);
    if (error)
        return error;
    if (maps) {
        void *map = file->map ? mremap(file->map, file->room, file->ready, MREMAP_MAYMOVE)
                              : mmap(NULL, file->ready, PROT_READ | PROT_WRITE, MAP_SHARED,
                                     file->descriptor, 0);
        if (map == MAP_FAILED)
            return error_set_errno(ERROR_MEMORY, errno, "cannot map the state %s", file->path);
        file->map = map;
    }
    file->room = file->ready;
    return OK;
}

/* ---- the folder --------------------------------------------------------- */

enum error journal_sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return error_set_errno(ERROR_IO, errno, "cannot open the state folder %s", folder);
    int failed = fsync(descriptor);
    int errno_value = errno;
    close(descriptor);
    if (failed && errno_value != EINVAL) /* some file systems cannot, and need not */
        return error_set_errno(ERROR_IO, errno_value, "cannot write the state folder %s", folder);
    return OK;
}
