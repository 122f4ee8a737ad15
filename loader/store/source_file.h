/* SPDX-License-Identifier: MIT */
/*
 * A file whose rows are read for hours, perhaps over a network file system, and that must not
 * change while open: same size, modification time, inode and device.
 *
 * Reads are pread(2), never mmap. On EIO, ESTALE and ETIMEDOUT (NFS mounted with softerr) the path
 * is reopened, compared and retried with growing pauses for about 13 seconds before the read fails
 * (except for a copy). One thread at a time.
 *
 * A file is read through a descriptor, or through functions of its kind of store, if closing a
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
    /* The path is a regular file's, and outlives the handle. */
    enum error (*open)(const char *path, void **ret_handle) MUST_CHECK;
    void (*close)(void *handle);
    ssize_t (*read)(void *handle, void *out, size_t bytes, uint64_t offset); /* like pread(2) */
};

struct source_file {
    char *path;                     /* owned */
    int descriptor;                 /* -1: closed, or there is a door */
    const struct source_door *door; /* NULL: by descriptor */
    void *handle;                   /* of the door */
    struct file_identity identity;
    bool is_copy; /* its bytes exist elsewhere: failed reads are not retried */
};

/* `expected` NULL: any file; else ERROR_INPUT if the path is now another file. On failure the file
 * is closed. */
enum error source_file_open(struct source_file *file, const char *path,
                            const struct file_identity *expected) MUST_CHECK;
enum error source_file_open_by(struct source_file *file, const struct source_door *door,
                               const char *path, const struct file_identity *expected) MUST_CHECK;
/* ERROR_INPUT saying what differs, if the file is not the `expected` one. */
enum error source_file_expect(const struct source_file *file,
                              const struct file_identity *expected) MUST_CHECK;
/* Legal on a zeroed file that was never opened. */
void source_file_close(struct source_file *file);

/* ERROR_INPUT saying what changed, if the open file has changed. A file that cannot be examined
 * just now passes: the next read decides. */
enum error source_file_check(const struct source_file *file) MUST_CHECK;

/* Reads exactly `bytes` at `offset`. ERROR_INPUT: the file has changed or is too short;
 * ERROR_CANCELLED: the program should stop, during a pause. */
enum error source_file_read(struct source_file *file, void *out, size_t bytes,
                            uint64_t offset) MUST_CHECK;

#endif
