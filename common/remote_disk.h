/* SPDX-License-Identifier: MIT */
/* Does a path lie on a disk of this machine? */
#ifndef COMMON_REMOTE_DISK_H
#define COMMON_REMOTE_DISK_H

#include <stdbool.h>

/* On a network file system, one in user space, or where that cannot be seen: other machines may
 * write there, this one's cache may not know, and a mapped page may take for ever to come. One look
 * at the file system; from every thread. */
bool remote_disk_holds(const char *path);

#endif
