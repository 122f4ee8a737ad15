/* SPDX-License-Identifier: MIT */
/*
 * What this process may use of the machine: processors by affinity and cgroup quota, memory by
 * cgroup limit (versions 1 and 2, including parent groups; memory.high, too, above which the kernel
 * slows a process down). In a container with two of 64 processors and 1 GiB, threads and buffers
 * should be sized accordingly.
 */
#ifndef COMMON_MACHINE_H
#define COMMON_MACHINE_H

#include <stdint.h>

struct machine {
    unsigned processors;   /* at least 1; a quota of 1.5 counts as 2 */
    uint64_t memory_bytes; /* at most the machine's; 0: unknown */
    uint64_t free_bytes;   /* of those, including what the system can reclaim; 0: unknown */
};

/* Reads a dozen small files: call at startup, not in a loop. */
void machine_look(struct machine *ret_machine);
/* The same with `root` prepended to the paths of /proc and /sys. */
void machine_look_below(const char *root, struct machine *ret_machine);

/* Raises this process' soft limit of open files, which shells set low, to the hard limit. Returns
 * the limit; 0: unknown. */
uint64_t machine_raise_files(void);

#endif
