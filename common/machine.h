/* SPDX-License-Identifier: MIT */
/*
 * What of the machine this process may use: processors by affinity and by its control group's
 * quota, memory by its control group's limit (versions 1 and 2, and the groups above it). A
 * container that is given two of 64 processors and 1 GiB should size its threads and buffers so.
 */
#ifndef COMMON_MACHINE_H
#define COMMON_MACHINE_H

#include <stdint.h>

struct machine {
    unsigned processors;   /* at least 1; a quota of one and a half is 2 */
    uint64_t memory_bytes; /* at most what there is; 0: not known */
    uint64_t free_bytes;   /* of them, with what the system would give back at need; 0: not known */
};

/* Reads a dozen small files: for whoever starts something, not for a loop. */
void machine_look(struct machine *ret_machine);
/* The same with `root` before the paths of /proc and /sys. */
void machine_look_below(const char *root, struct machine *ret_machine);

/* Raises this process' limit of open files as far as it may: the soft limit is what shells start us
 * with. Returns it; 0: not known. */
uint64_t machine_raise_files(void);

#endif
