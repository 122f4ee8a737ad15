/* SPDX-License-Identifier: MIT */
/* What the system reports of a folder's file system: /proc/self/mountinfo. */
#ifndef LOADER_TOOL_MOUNT_FACTS_H
#define LOADER_TOOL_MOUNT_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct mount_facts {
    char type[64];      /* "ext4", "nfs4", "fuse.sshfs" */
    char source[256];   /* "10.0.0.1:/export", "/dev/sda1" */
    char options[1024]; /* "rw,relatime,vers=4.2,hard" */
};

/* The mount that contains a path. ERROR_NOT_FOUND: no such path. */
enum error mount_facts_find(const char *path, struct mount_facts *ret_facts) MUST_CHECK;
/* Is `option`, "soft" or "vers=3", among the options? One with a value may be given without it. */
bool mount_facts_has(const struct mount_facts *facts, const char *option);
/* The value after "NAME=", truncated; "" if there is none. */
void mount_facts_value(const struct mount_facts *facts, const char *name, char *out, size_t bytes);
bool mount_facts_is_nfs(const struct mount_facts *facts);

#endif
