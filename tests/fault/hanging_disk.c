/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD): a call hangs, before or after it is done, as long as the
 * folder that HANGING_DISK names has a file of its name: `fdatasync`, `fdatasync-after`, `pwrite`,
 * `pwrite-after`, and so on. With `fdatasync-fails` it is refused with EIO.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool is_there(const char *call, const char *how)
{
    char path[4096];
    const char *folder = getenv("HANGING_DISK");
    snprintf(path, sizeof(path), "%s/%s%s", folder ? folder : ".", call, how);
    return access(path, F_OK) == 0;
}

static void hang(const char *call, const char *when)
{
    int before = errno;
    while (is_there(call, when))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    errno = before;
}

/* `type` NAME `parameters` of the C library, called with `arguments`. */
#define HANG(type, name, parameters, arguments) \
    type name parameters                        \
    {                                           \
        hang(#name, "");                        \
        if (is_there(#name, "-fails")) {        \
            errno = EIO;                        \
            return -1;                          \
        }                                       \
        type done = NEXT(name) arguments;       \
        hang(#name, "-after");                  \
        return done;                            \
    }

HANG(int, fdatasync, (int file), (file))
HANG(int, fsync, (int file), (file))
HANG(ssize_t, pwrite, (int file, const void *in, size_t bytes, off_t at), (file, in, bytes, at))
