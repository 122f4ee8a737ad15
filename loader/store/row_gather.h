/* SPDX-License-Identifier: MIT */
/*
 * Pieces of a file on a local disk, copied together by one system call.
 *
 * The file is mapped, but this process never reads the mapping itself: what is cut off or fails to
 * be read would end it by SIGBUS, whose handler belongs to the program that we are a library of.
 * The kernel reads it instead, for a pwritev(2) from the mapping to a window of memory
 * (memfd_create(2)), and says EFAULT where a page cannot be had. The caller then reads by pread(2),
 * which says what is wrong.
 *
 * One thread at a time. A child of fork(2) inherits neither.
 */
#ifndef LOADER_STORE_ROW_GATHER_H
#define LOADER_STORE_ROW_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define ROW_GATHER_PIECES 1024 /* IOV_MAX of Linux */
#define ROW_LINE_BYTES 64
#define ROW_PREFETCH_BYTES 4096 /* of a piece: what is longer the processor sees coming */

/* A row that is read soon, into the second cache; where there is no page it does nothing. */
static inline void row_prefetch(const uint8_t *begin, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < ROW_PREFETCH_BYTES; at += ROW_LINE_BYTES)
        __builtin_prefetch(begin + at, 0, 2);
}

/* Zeroed: closed. */
struct row_gather {
    uint8_t *file; /* owned, mapped; [file_bytes]; NULL: closed */
    size_t file_bytes;
    uint8_t *window; /* owned, mapped; [window_bytes] */
    size_t window_bytes;
    int descriptor; /* owned; of the window's memory */
    size_t used;    /* bytes that were added */
    size_t count;   /* pieces that they are */
    struct iovec pieces[ROW_GATHER_PIECES];
};

/* Of a file of `file_bytes` that is open; the descriptor is not needed afterwards. False: there is
 * nothing to be won (a network file system), or the system has no mapping or memory for it. */
bool row_gather_open(struct row_gather *gather, const char *path, int descriptor,
                     uint64_t file_bytes, size_t window_bytes);
/* Legal when it is closed. */
void row_gather_close(struct row_gather *gather);

/* Begins a new list. */
void row_gather_clear(struct row_gather *gather);
/* `bytes` of the file at `offset` come behind those that were added before. False: there is no room
 * for them in the window, or in the list. */
bool row_gather_add(struct row_gather *gather, uint64_t offset, size_t bytes);
/* Copies them: they lie at `window`, one behind the other. False: one of them could not be read.
 * May wait for the disk. */
bool row_gather_copy(struct row_gather *gather);

#endif
