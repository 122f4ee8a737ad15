/* SPDX-License-Identifier: MIT */
/*
 * Copies many pieces of a file on a local disk with one system call.
 *
 * The file is mapped, but this process never reads the mapping itself: a page that was truncated or
 * cannot be read would raise SIGBUS, whose handler belongs to the program that uses this library.
 * The kernel reads it instead, for a pwritev(2) from the mapping to a window of memory
 * (memfd_create(2)), and returns EFAULT if a page is unavailable. The caller then uses pread(2),
 * which reports the error.
 *
 * One thread at a time. A child of fork(2) inherits neither mapping.
 */
#ifndef LOADER_STORE_ROW_GATHER_H
#define LOADER_STORE_ROW_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define ROW_GATHER_PIECES 1024 /* IOV_MAX of Linux */
#define ROW_LINE_BYTES 64
#define ROW_PREFETCH_BYTES 4096 /* per piece: the processor prefetches the rest itself */

/* Prefetches a row into the second-level cache; does nothing if there is no page. */
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
    int descriptor; /* owned; of the memfd */
    size_t used;    /* bytes added */
    size_t count;   /* pieces added */
    struct iovec pieces[ROW_GATHER_PIECES];
};

/* For an open file of `file_bytes`; the descriptor is not needed afterwards. False: there is no
 * benefit (a network file system), or the system has no mapping or memory for it. */
bool row_gather_open(struct row_gather *gather, const char *path, int descriptor,
                     uint64_t file_bytes, size_t window_bytes);
/* In two steps, for a file without descriptor: is there a benefit? */
bool row_gather_helps(const char *path, uint64_t file_bytes, size_t window_bytes);
/* Takes a mapping of the whole file, also if it fails. */
bool row_gather_take(struct row_gather *gather, uint8_t *file, size_t file_bytes,
                     size_t window_bytes);
/* Legal if closed. */
void row_gather_close(struct row_gather *gather);

/* Begins a new list. */
void row_gather_clear(struct row_gather *gather);
/* Appends `bytes` of the file at `offset`. False: the window, or the list, is full. */
bool row_gather_add(struct row_gather *gather, uint64_t offset, size_t bytes);
/* Copies them to `window`, one after the other. False: one of them could not be read. May wait for
 * the disk. */
bool row_gather_copy(struct row_gather *gather);

#endif
