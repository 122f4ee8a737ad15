/* SPDX-License-Identifier: MIT */
/* Files on other machines' disks: detects them, and reads their current content. */
#ifndef COMMON_REMOTE_DISK_H
#define COMMON_REMOTE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Is it on a network file system, one in user space, or one that cannot be determined? Other
 * machines may write there without this one's page cache noticing, and a mapped page may take
 * forever to arrive. One look at the file system; any thread. */
bool remote_disk_holds(const char *path);

/* Opens a file so that reads see the server's content. Linux' NFS client takes changes to a file
 * that it has open for writing for its own: its cache keeps the file as this machine wrote it, even
 * if reopened. `is_remote`: result of remote_disk_holds(); `flags`: in addition to those for
 * reading. Returns a descriptor; -1: errno. */
int remote_disk_open(const char *path, int flags, bool is_remote);
/* Reads the start of such a file: at most REMOTE_DISK_BYTES. Returns how many of `bytes` there are;
 * -1: errno. */
#define REMOTE_DISK_BYTES 4096
ssize_t remote_disk_read(int descriptor, void *out, size_t bytes);

#endif
