/* SPDX-License-Identifier: MIT */
/* How much memory belongs to this process alone. */
#ifndef TESTS_UNIT_PRIVATE_MEMORY_H
#define TESTS_UNIT_PRIVATE_MEMORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In kB; -1 where the kernel does not say. */
static inline long private_memory_kilobytes(void)
{
    char line[256];
    long sum = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "Private_", 8) == 0 && colon)
            sum += strtol(colon + 1, NULL, 10);
    }
    fclose(file);
    return sum;
}

#endif
