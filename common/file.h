/* SPDX-License-Identifier: MIT */
/*
 * Reads files whole and publishes files whole. A struct file_writer writes PATH.tmp.<pid>.<n> next
 * to the final name, locked by flock(2); file_writer_commit() flushes, fsyncs, renames and fsyncs
 * the folder. Until then the final name shows the old content or nothing; file_writer_close()
 * without a commit removes the temporary file. A file that is replaced hands its permissions on,
 * and its owner as far as the process may give a file away. A full disk is ERROR_NO_SPACE and names
 * the path and the bytes needed.
 */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/error.h"

/* Identifies a file's content: it is unchanged if all four are equal. */
struct file_identity {
    uint64_t size_bytes;
    int64_t modified_ns;
    uint64_t inode;
    uint64_t device;
};

enum error file_identity_of(int descriptor, const char *path,
                            struct file_identity *ret_identity) MUST_CHECK;
/* The same for a path, without opening it. */
enum error file_identity_at(const char *path, struct file_identity *ret_identity) MUST_CHECK;
bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);

/* Opens a regular file for reading. A folder, pipe or device is ERROR_INPUT; every error names the
 * path. Never waits for a pipe's other end. */
enum error file_open_read(const char *path, int *ret_descriptor) MUST_CHECK;
/* ERROR_INPUT instead of ERROR_IO if this process may not read `path`: when a program opens the
 * files it was given, such a one is bad input, as a missing one. Later on, it is a failure. */
enum error file_as_input(enum error error, const char *path);

/* Opens a file in one of our own folders, with the `flags` of open(2) and mode 0666 & ~umask. Only
 * a regular file (else ERROR_INPUT), never through a symbolic link; never waits. ERROR_NOT_FOUND:
 * it does not exist. */
enum error file_open_own(const char *path, int flags, int *ret_descriptor) MUST_CHECK;

/* A file without a name in `folder`, gone once it is closed, for reading and writing. Returns a
 * descriptor; -1: errno. */
int file_open_unnamed(const char *folder);

/* Resolves symbolic links: files written next to it, or in its place, use this name. Returns `path`
 * itself if it leads nowhere. free() it; NULL: no memory, the error is set. */
char *file_real_path(const char *path);

/* Reads exactly `bytes` at `offset` and retries EINTR; an earlier end of file is ERROR_INPUT ("PATH
 * ends at byte N, M were expected"). */
enum error file_read_at(int descriptor, const char *path, void *out, size_t bytes,
                        uint64_t offset) MUST_CHECK;

/* Reads the whole file into `buffer` (cleared first); exceeding its limit is ERROR_INPUT. A pipe
 * from <(COMMAND), or /dev/stdin after a `|`, is read to its end, or until stop_requested()
 * (ERROR_CANCELLED); a named pipe or a device is ERROR_INPUT. */
enum error file_read_whole(const char *path, struct buffer *buffer) MUST_CHECK;

/* mkdir with mode 0777 & ~umask; an existing folder is OK. */
enum error file_make_folder(const char *path) MUST_CHECK;
/* The same, with its parents: mkdir -p. */
enum error file_make_folders(const char *path) MUST_CHECK;
/* To undo file_make_folders(): call the first one before it, for how many bytes of `path` name
 * existing folders; the second one removes those below, deepest first, while they are empty. */
size_t file_folders_there(const char *path);
void file_remove_folders(const char *path, size_t there);

/* fsyncs every folder above `path`, which then survives power loss if its own folder does: whoever
 * creates a folder syncs its name. Folders that cannot be opened or synced are skipped. */
void file_sync_above(const char *path);

struct file_writer;

/* Creates the temporary file next to `path` (whose folder must exist), and removes and logs
 * leftovers of killed writers of `path`. A folder or a device of that name is ERROR_USAGE. */
enum error file_writer_open(const char *path, struct file_writer **ret_writer) MUST_CHECK;
/* Discards the temporary file unless it was committed. NULL is legal. */
void file_writer_close(struct file_writer *writer);
/* Buffered append (1 MiB). */
enum error file_writer_add(struct file_writer *writer, const void *bytes, size_t length) MUST_CHECK;
/* Overwrites bytes already added (such as a header that is known last). */
enum error file_writer_patch(struct file_writer *writer, const void *bytes, size_t length,
                             uint64_t offset) MUST_CHECK;
/* Writes at an explicit offset, unbuffered, for files of several parts that grow side by side; do
 * not combine with file_writer_add(). */
enum error file_writer_add_at(struct file_writer *writer, const void *bytes, size_t length,
                              uint64_t offset) MUST_CHECK;
/* Passes everything added so far to the system, so that others can read the temporary file. */
enum error file_writer_flush(struct file_writer *writer) MUST_CHECK;
/* End of the last byte added so far. */
uint64_t file_writer_length(const struct file_writer *writer);
/* The temporary file's name, for libraries that open files themselves (SQLite). */
const char *file_writer_temporary_path(const struct file_writer *writer);
/* Its descriptor (read and write), for callers that write at their own offsets; borrowed. */
int file_writer_descriptor(const struct file_writer *writer);
/* Flush, fsync, rename over `path`, fsync the folder. Afterwards only close is legal. If the last
 * step fails, the file is there, and the message says so. */
enum error file_writer_commit(struct file_writer *writer) MUST_CHECK;
/* Its two halves, for callers with something to check just before the rename. */
enum error file_writer_sync(struct file_writer *writer) MUST_CHECK;
enum error file_writer_publish(struct file_writer *writer) MUST_CHECK;

/* Writes a small file: open, add, commit. */
enum error file_write_whole(const char *path, const void *bytes, size_t length) MUST_CHECK;

#endif
