/* SPDX-License-Identifier: MIT */
/* Files on disks of other machines: which those are, and reading what is on them now. */
#ifndef COMMON_REMOTE_DISK_H
#define COMMON_REMOTE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* On a network file system, one in user space, or where that cannot be seen: other machines may
 * write there, this one's cache may not know, and a mapped page may take for ever to come. One look
 * at the file system; from every thread. */
bool remote_disk_holds(const char *path);

/* Opens a file to read what its server has of it: Linux' NFS client takes changes of a file that it
 * has open for writing for its own, so that its cache has the file as this machine wrote it, opened
 * again or not. `is_remote`: as remote_disk_holds() said; `flags`: besides those to read. Returns a
 * descriptor; -1: errno. */
int remote_disk_open(const char *path, int flags, bool is_remote);
/* How such a file begins: at most REMOTE_DISK_BYTES. Returns how many of `bytes` there are; -1:
 * errno. */
#define REMOTE_DISK_BYTES 4096
ssize_t remote_disk_read(int descriptor, void *out, size_t bytes);

#endif
