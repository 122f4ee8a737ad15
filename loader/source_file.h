/*
 * A file that rows are read from for hours, perhaps over a network file system, and that must stay
 * what it was when it was opened: same size, modification time, inode and device.
 *
 * Reads are pread(2), never mmap. EIO and ESTALE reopen the path, compare, and try again with
 * growing pauses for about 13 seconds before they fail. One thread at a time.
 */
#ifndef LOADER_SOURCE_FILE_H
#define LOADER_SOURCE_FILE_H

#include "common/error.h"
#include "common/file.h"

struct source_file {
    char *path;     /* owned */
    int descriptor; /* -1: closed */
    struct file_identity identity;
};

/* `expected` NULL: whatever is there; else ERROR_INPUT when the path now is another file. */
enum error source_file_open(struct source_file *file, const char *path,
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

/* Opens the path again after a read failed and checks that it still is the same file. `attempt`
 * counts from 0; sleeps first, longer each time. ERROR_IO after the last attempt, with `reason`
 * as the message: what to call in a loop around libraries that read by themselves. */
enum error source_file_reopen(struct source_file *file, int attempt,
                              const struct error_report *reason) MUST_CHECK;

#endif
