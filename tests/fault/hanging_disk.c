/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD): a call hangs, before or after it is done, as long as the
 * folder that HANGING_DISK names has a file of its name: `fdatasync`, `fdatasync-after`, `pwrite`,
 * `pwrite-after`, and so on, and while there is `met`, that is removed by the first one that does.
 * Where there is `only`, files alone hang whose path has its text.
 * With `fdatasync-fails` it is refused with EIO.
 */
#include "preloaded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void name(char path[4096], const char *call, const char *how)
{
    const char *folder = getenv("HANGING_DISK");
    snprintf(path, 4096, "%s/%s%s", folder ? folder : ".", call, how);
}

static bool is_there(const char *call, const char *how)
{
    char path[4096];
    name(path, call, how);
    return access(path, F_OK) == 0;
}

static bool is_meant(int file)
{
    char path[4096], link[64], text[64] = "";
    name(path, "only", "");
    FILE *only = fopen(path, "r");
    if (!only)
        return true;
    bool is_read = fgets(text, sizeof(text), only) != NULL;
    fclose(only);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    return is_read && strstr(path, text);
}

static void hang(const char *call, const char *when, int file)
{
    int before = errno;
    char path[4096];
    if (!is_meant(file))
        return;
    if (is_there(call, when)) {
        name(path, "met", "");
        unlink(path);
    }
    while (is_there(call, when))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    errno = before;
}

/* `type` NAME `parameters` of the C library, called with `arguments`. */
#define HANG(type, name, parameters, arguments) \
    type name parameters                        \
    {                                           \
        hang(#name, "", file);                  \
        if (is_there(#name, "-fails")) {        \
            errno = EIO;                        \
            return -1;                          \
        }                                       \
        type done = NEXT(name) arguments;       \
        hang(#name, "-after", file);            \
        return done;                            \
    }

HANG(int, fdatasync, (int file), (file))
HANG(int, fsync, (int file), (file))
HANG(ssize_t, pwrite, (int file, const void *in, size_t bytes, off_t at), (file, in, bytes, at))
