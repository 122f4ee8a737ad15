/* SPDX-License-Identifier: MIT */
/*
 * Whole files in; files published whole. A struct file_writer writes PATH.tmp.<pid>.<n> beside the
 * final name, locked by flock(2); file_writer_commit() flushes, fsyncs, renames and fsyncs the
 * folder. Until then the final name shows the old content or nothing, and file_writer_close()
 * without a commit removes the temporary file. Disk full is ERROR_NO_SPACE naming the path and the
 * bytes needed.
 */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/error.h"

/* Whether a file is still the one that was read: all four must be equal. */
struct file_identity {
    uint64_t size_bytes;
    int64_t modified_ns;
    uint64_t inode;
    uint64_t device;
};

enum error file_identity_of(int descriptor, const char *path,
                            struct file_identity *ret_identity) MUST_CHECK;
/* The same of a path, which is not opened for it. */
enum error file_identity_at(const char *path, struct file_identity *ret_identity) MUST_CHECK;
bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);

/* Opens a regular file for reading; a folder, a pipe or a device (ERROR_INPUT), or a file that
 * cannot be read, is an error that names the path. Never waits for a pipe's other end. */
enum error file_open_read(const char *path, int *ret_descriptor) MUST_CHECK;

/* Opens a file in a folder of our own, with the `flags` of open(2) and mode 0666 & ~umask: never
 * through a symbolic link, and only a regular file (ERROR_INPUT); never waits. ERROR_NOT_FOUND: it
 * is not there. */
enum error file_open_own(const char *path, int flags, int *ret_descriptor) MUST_CHECK;

/* Where links lead to: what is written beside a file, or in its place, has this name. The path
 * itself where it leads nowhere. free() it; NULL: no memory, the error is set. */
char *file_real_path(const char *path);

/* Exactly `bytes` at `offset`; EINTR is retried; end of file before that is ERROR_INPUT
 * ("PATH ends at byte N, M were expected"). */
enum error file_read_at(int descriptor, const char *path, void *out, size_t bytes,
                        uint64_t offset) MUST_CHECK;

/* The whole file into `buffer` (cleared first); longer than its limit is ERROR_INPUT. What a shell
 * gives as <(COMMAND), or as /dev/stdin at the end of a `|`, is read to its end, until
 * stop_requested() at most (ERROR_CANCELLED); a pipe with a name, or a device, is ERROR_INPUT. */
enum error file_read_whole(const char *path, struct buffer *buffer) MUST_CHECK;

/* mkdir with mode 0777 & ~umask; a folder that is there is OK. */
enum error file_make_folder(const char *path) MUST_CHECK;
/* The same for those above it, too: mkdir -p. */
enum error file_make_folders(const char *path) MUST_CHECK;
/* To undo file_make_folders(): how many bytes of `path` name folders that exist, asked before it;
 * and the removal of those below, from the last on, as long as they are empty. */
size_t file_folders_there(const char *path);
void file_remove_folders(const char *path, size_t there);

/* fsync of every folder above `path`, which survives power loss from then on if its own folder lets
 * it: who makes a folder syncs its name. Those that cannot be opened or synced are passed by. */
void file_sync_above(const char *path);

struct file_writer;

/* Creates the temporary file beside `path` (its folder must exist), and removes what killed writers
 * of `path` left there, which the log says. A folder or a device under that name is ERROR_USAGE. */
enum error file_writer_open(const char *path, struct file_writer **ret_writer) MUST_CHECK;
/* Discards the temporary file unless it was committed. NULL is legal. */
void file_writer_close(struct file_writer *writer);
/* Buffered append (1 MiB). */
enum error file_writer_add(struct file_writer *writer, const void *bytes, size_t length) MUST_CHECK;
/* Overwrites bytes that were added already (a header that is known last). */
enum error file_writer_patch(struct file_writer *writer, const void *bytes, size_t length,
                             uint64_t offset) MUST_CHECK;
/* Bytes at an offset of the caller's, unbuffered, for a file of several parts that grow side by
 * side; not beside file_writer_add(). */
enum error file_writer_add_at(struct file_writer *writer, const void *bytes, size_t length,
                              uint64_t offset) MUST_CHECK;
/* Hands everything added so far to the system, so that others can read the temporary file. */
enum error file_writer_flush(struct file_writer *writer) MUST_CHECK;
/* Bytes added so far, up to the last one. */
uint64_t file_writer_length(const struct file_writer *writer);
/* The name of the temporary file, for libraries that open files themselves (SQLite). */
const char *file_writer_temporary_path(const struct file_writer *writer);
/* Its descriptor, read and write, for whoever writes at offsets of his own; borrowed. */
int file_writer_descriptor(const struct file_writer *writer);
/* Flush, fsync, rename over `path`, fsync the folder. Afterwards only close is legal. */
enum error file_writer_commit(struct file_writer *writer) MUST_CHECK;

/* A small file at once: open, add, commit. */
enum error file_write_whole(const char *path, const void *bytes, size_t length) MUST_CHECK;

#endif
