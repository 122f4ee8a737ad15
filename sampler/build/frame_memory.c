/* frame_build_memory(): what a build may take without being asked. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/build/frame_build.h"

#define MOST_BYTES ((uint64_t)2 << 30)
#define SHARE 4

/* A number in a file of one; "max" and files that are not there change nothing. */
static void lower_to(const char *path, uint64_t *bytes)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    bool is_read = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    if (!is_read || strncmp(text, "max", 3) == 0)
        return;
    uint64_t limit = strtoull(text, NULL, 10);
    if (limit > 0 && limit < *bytes)
        *bytes = limit;
}

uint64_t frame_build_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes
                                                 : SHARE * FRAME_MEMORY_LEAST;
    lower_to("/sys/fs/cgroup/memory.max", &bytes);
    lower_to("/sys/fs/cgroup/memory/memory.limit_in_bytes", &bytes);
    bytes /= SHARE;
    return bytes < MOST_BYTES ? bytes : MOST_BYTES;
}
