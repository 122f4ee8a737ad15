/* SPDX-License-Identifier: MIT */
/*
 * A file that rows are read from for hours, perhaps over a network file system, and that must not
 * change while it is open: same size, modification time, inode and device.
 *
 * Reads are pread(2), never mmap. EIO and ESTALE reopen the path, compare, and try again with
 * growing pauses for about 13 seconds before they fail (but for a copy). One thread at a time.
 *
 * A file is read through a descriptor, or through a door of its kind of store, where closing a
 * descriptor would do harm (sqlite_door.h).
 */
#ifndef LOADER_STORE_SOURCE_FILE_H
#define LOADER_STORE_SOURCE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/file.h"

struct source_door {
    /* The path is that of a regular file, and stays as long as the handle. */
    enum error (*open)(const char *path, void **ret_handle) MUST_CHECK;
    void (*close)(void *handle);
    ssize_t (*read)(void *handle, void *out, size_t bytes, uint64_t offset); /* as pread(2) */
};

struct source_file {
    char *path;                     /* owned */
    int descriptor;                 /* -1: closed, or there is a door */
    const struct source_door *door; /* NULL: by descriptor */
    void *handle;                   /* of the door */
    struct file_identity identity;
    bool is_copy; /* its bytes can be had elsewhere: a read that fails is not tried again */
};

/* `expected` NULL: whatever is there; else ERROR_INPUT when the path now is another file. On
 * failure the file is closed. */
enum error source_file_open(struct source_file *file, const char *path,
                            const struct file_identity *expected) MUST_CHECK;
enum error source_file_open_by(struct source_file *file, const struct source_door *door,
                               const char *path, const struct file_identity *expected) MUST_CHECK;
/* ERROR_INPUT saying what changed, when the file was `expected` to be another. */
enum error source_file_expect(const struct source_file *file,
                              const struct file_identity *expected) MUST_CHECK;
/* Legal for a file that was zeroed and never opened. */
void source_file_close(struct source_file *file);

/* ERROR_INPUT saying what changed, when the open file is no longer what it was. A file that cannot
 * be looked at just now passes: the next read decides. */
enum error source_file_check(const struct source_file *file) MUST_CHECK;

/* Exactly `bytes` at `offset`. ERROR_INPUT when the file has become another or shorter,
 * ERROR_CANCELLED when the program is to stop during a pause. */
enum error source_file_read(struct source_file *file, void *out, size_t bytes,
                            uint64_t offset) MUST_CHECK;

#endif
