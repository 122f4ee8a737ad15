/* SPDX-License-Identifier: MIT */
#include "loader/store/row_gather.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/remote_disk.h"

/* A write beyond the file size limit (`ulimit -f`) ends the process. */
static bool may_write(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* False: no memory, or the system lacks memfd_create(). */
static bool make_window(struct row_gather *gather, size_t bytes)
{
    gather->descriptor = memfd_create("tombola-rows", MFD_CLOEXEC);
    if (gather->descriptor < 0)
        return false;
    void *window = MAP_FAILED;
    if (ftruncate(gather->descriptor, (off_t)bytes) == 0)
        window = mmap(NULL, bytes, PROT_READ, MAP_SHARED, gather->descriptor, 0);
    if (window == MAP_FAILED) {
        close(gather->descriptor);
        return false;
    }
    madvise(window, bytes, MADV_DONTFORK);
    gather->window = window;
    gather->window_bytes = bytes;
    return true;
}

bool row_gather_helps(const char *path, uint64_t file_bytes, size_t window_bytes)
{
    return file_bytes > 0 && file_bytes <= PTRDIFF_MAX && !remote_disk_holds(path) &&
           may_write(window_bytes);
}

bool row_gather_take(struct row_gather *gather, uint8_t *file, size_t file_bytes,
                     size_t window_bytes)
{
    *gather = (struct row_gather){.file = NULL};
    madvise(file, file_bytes, MADV_DONTFORK);
    if (!make_window(gather, window_bytes)) {
        munmap(file, file_bytes);
        return false;
    }
    gather->file = file;
    gather->file_bytes = file_bytes;
    return true;
}

bool row_gather_open(struct row_gather *gather, const char *path, int descriptor,
                     uint64_t file_bytes, size_t window_bytes)
{
    *gather = (struct row_gather){.file = NULL};
    if (!row_gather_helps(path, file_bytes, window_bytes))
        return false;
    void *file = mmap(NULL, (size_t)file_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    return file != MAP_FAILED && row_gather_take(gather, file, (size_t)file_bytes, window_bytes);
}

void row_gather_close(struct row_gather *gather)
{
    if (!gather->file)
        return;
    munmap(gather->file, gather->file_bytes);
    munmap(gather->window, gather->window_bytes);
    close(gather->descriptor);
    gather->file = NULL;
}

void row_gather_clear(struct row_gather *gather)
{
    gather->used = gather->count = 0;
}

bool row_gather_add(struct row_gather *gather, uint64_t offset, size_t bytes)
{
    uint8_t *begin = gather->file + offset;
    struct iovec *last = gather->count > 0 ? &gather->pieces[gather->count - 1] : NULL;
    if (offset > gather->file_bytes || bytes > gather->file_bytes - offset ||
        bytes > gather->window_bytes - gather->used)
        return false;
    if (last && (uint8_t *)last->iov_base + last->iov_len == begin) {
        last->iov_len += bytes;
    } else {
        if (gather->count == ROW_GATHER_PIECES)
            return false;
        gather->pieces[gather->count++] = (struct iovec){.iov_base = begin, .iov_len = bytes};
    }
    row_prefetch(begin, bytes); /* while the list grows */
    gather->used += bytes;
    return true;
}

bool row_gather_copy(struct row_gather *gather)
{
    ssize_t copied;
    do {
        copied = pwritev(gather->descriptor, gather->pieces, (int)gather->count, 0);
    } while (copied < 0 && errno == EINTR);
    return copied >= 0 && (size_t)copied == gather->used;
}
