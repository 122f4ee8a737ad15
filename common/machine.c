/* SPDX-License-Identifier: MIT */
#include "common/machine.h"

#include <ctype.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_BYTES 1024

/* The numbers at the start of a small file, and how many there are; "max" and "-1" end them. */
static int read_numbers(const char *folder, const char *name, uint64_t ret_numbers[2])
{
    char path[3 * PATH_BYTES], line[100] = "";
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool is_read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    int count = 0;
    for (char *at = line, *end = NULL; is_read && count < 2 && isdigit((unsigned char)*at);
         at = end) {
        ret_numbers[count++] = strtoull(at, &end, 10);
        end += strspn(end, " ");
    }
    return count;
}

/* The number after `key` in a file of lines "key number"; false: none. */
static bool read_key(const char *folder, const char *name, const char *key, uint64_t *ret_number)
{
    char path[3 * PATH_BYTES], line[PATH_BYTES];
    size_t length = strlen(key);
    bool found = false;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        found = strncmp(line, key, length) == 0 && line[length] == ' ';
        if (found)
            *ret_number = strtoull(line + length, NULL, 10);
    }
    if (file)
        fclose(file);
    return found;
}

static void lower(uint64_t *known, uint64_t bytes)
{
    if (*known == 0 || bytes < *known)
        *known = bytes;
}

/* A group's limit, and what it leaves: unused file pages are reclaimed if needed. */
static void lower_memory(struct machine *machine, const char *folder, const char *limit,
                         const char *used, const char *given_back)
{
    uint64_t most[2], now[2], back = 0;
    if (read_numbers(folder, limit, most) == 0 || most[0] == 0)
        return;
    lower(&machine->memory_bytes, most[0]);
    if (read_numbers(folder, used, now) == 0)
        return;
    (void)read_key(folder, "memory.stat", given_back, &back);
    now[0] -= back < now[0] ? back : now[0];
    lower(&machine->free_bytes, most[0] > now[0] ? most[0] - now[0] : 1);
}

static void lower_processors(struct machine *machine, uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0 || quota / period >= machine->processors)
        return;
    machine->processors = (unsigned)((quota + period - 1) / period);
}

/* Is `name` in a list like "cpu,cpuacct"? */
static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (strcspn(list, ",") != length || memcmp(list, name, length) != 0) {
        list += strcspn(list, ",");
        if (!*list++)
            return false;
    }
    return true;
}

/* The limits of a version 1 control group for these controllers, or of version 2, which names
 * none. */
static void heed_group(struct machine *machine, const char *folder, const char *controllers)
{
    uint64_t quota[2], period[2];
    if (!controllers[0]) {
        lower_memory(machine, folder, "memory.max", "memory.current", "inactive_file");
        lower_memory(machine, folder, "memory.high", "memory.current", "inactive_file");
        if (read_numbers(folder, "cpu.max", quota) == 2)
            lower_processors(machine, quota[0], quota[1]);
    }
    if (is_listed(controllers, "memory"))
        lower_memory(machine, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                     "total_inactive_file");
    if (is_listed(controllers, "cpu") && read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
        read_numbers(folder, "cpu.cfs_period_us", period) == 1)
        lower_processors(machine, quota[0], period[0]);
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "4:memory:/path", "1:cpu,cpuacct:/path".
 * Considers the group at that path and all above it up to the mount itself, which in a container
 * may be the only visible one. */
static void heed_line(struct machine *machine, const char *root, char *line)
{
    char mount[PATH_BYTES], folder[2 * PATH_BYTES];
    char *controllers = strchr(line, ':'), *path;
    path = controllers ? strchr(++controllers, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", root, controllers[0] ? "/" : "",
             controllers);
    snprintf(folder, sizeof(folder), "%s%s", mount, path);
    for (size_t length = strlen(folder); length >= strlen(mount); length--) {
        bool whole = folder[length] == '\0' || folder[length] == '/';
        folder[length] = '\0';
        if (whole)
            heed_group(machine, folder, controllers);
    }
}

void machine_look_below(const char *root, struct machine *ret_machine)
{
    char line[PATH_BYTES];
    cpu_set_t processors;
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    struct machine machine = {.processors = 1};
    if (sched_getaffinity(0, sizeof(processors), &processors) == 0)
        machine.processors = (unsigned)CPU_COUNT(&processors);
    if (pages > 0 && page_bytes > 0)
        machine.memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    snprintf(line, sizeof(line), "%s/proc", root);
    if (read_key(line, "meminfo", "MemAvailable:", &machine.free_bytes))
        machine.free_bytes *= 1024;
    snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
    FILE *groups = fopen(line, "re");
    while (groups && fgets(line, sizeof(line), groups))
        heed_line(&machine, root, line);
    if (groups)
        fclose(groups);
    *ret_machine = machine;
}

void machine_look(struct machine *ret_machine)
{
    machine_look_below("", ret_machine);
}

uint64_t machine_raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}
