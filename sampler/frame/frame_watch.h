/* SPDX-License-Identifier: MIT */
/*
 * A mapped frame file must not change: its ids are handed out as long as the server runs. Three
 * checks; each catches what the previous one misses:
 *
 *   a read lease (fcntl(2)), where the system grants one (a local file system, to the file's owner
 *   or root): a process that opens the file to write to it, or truncates it, blocks until this
 *   process has ended, or for /proc/sys/fs/lease-break-time
 *   frame_watch_check(), once a second: the lease is being broken; size, time of the last change or
 *   inode are not what they were when the file was opened
 *   SIGBUS at an address in the mapping: the file is shorter than that, or its disk cannot be read.
 *   One line on standard error, and the process ends with status 2
 *
 * Renaming a new file over the old name is harmless: the old file stays mapped.
 *
 * Threads: created and freed while no other thread uses the mapping; checked from any thread.
 */
#ifndef SAMPLER_FRAME_FRAME_WATCH_H
#define SAMPLER_FRAME_FRAME_WATCH_H

#include <stddef.h>

#include "common/error.h"
#include "common/file.h"

struct frame_watch;

/* `descriptor` (borrowed, like `path`) is open for reading on the file mapped at `bytes`;
 * `identity` is the file's when it was opened. From the first watch on, the process ignores SIGIO
 * and handles SIGBUS; outside watched mappings SIGBUS keeps its previous effect. */
enum error frame_watch_new(const char *path, int descriptor, const struct file_identity *identity,
                           const void *bytes, size_t size,
                           struct frame_watch **ret_watch) MUST_CHECK;
/* NULL is legal. */
void frame_watch_free(struct frame_watch *watch);
/* ERROR_INPUT: the file was modified, or a process is about to modify it. */
enum error frame_watch_check(const struct frame_watch *watch) MUST_CHECK;

#endif
