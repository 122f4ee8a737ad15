/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into all that a test starts (LD_PRELOAD): in a program of ours, now and then a call to
 * the system begins or returns up to LATE_MS later, as on a machine that has much else to do. A
 * test, or a program, that took one thing to be done because another was, fails then.
 * A process rests for half a second and a fifth of its life at most.
 */
#include "preloaded.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LATE_MS = 150 };
/* Of that many calls one: what others see or wait for; all else; locks, which are taken all the time. */
enum { SEEN = 6, OTHER = 48, LOCK = 2048 };

static bool is_ours;
static int64_t began_ms;
static _Atomic int64_t rested_ms;
static _Thread_local uint64_t dice;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((constructor)) static void begin(void)
{
    char name[32] = "";
    int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, name, sizeof(name) - 1) > 0)
        is_ours = strncmp(name, "tombola-", 8) == 0;
    close(file);
    began_ms = now_ms();
}

static uint64_t roll(void)
{
    if (!dice) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        dice = ((uint64_t)now.tv_nsec << 32 ^ (uintptr_t)&dice) | 1;
    }
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice >> 16;
}

static void rest(unsigned one_in)
{
    if (!is_ours || roll() % one_in)
        return;
    int before = errno;
    int64_t ms = (int64_t)(roll() % LATE_MS);
    if (atomic_fetch_add(&rested_ms, ms) + ms > 500 + (now_ms() - began_ms) / 5)
        atomic_fetch_sub(&rested_ms, ms);
    else
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
    errno = before;
}

#define LATE(one_in, type, name, parameters, arguments)   \
    type name parameters                                  \
    {                                                     \
        static _Atomic(void *) next;                      \
        if (!next)                                        \
            next = (void *)NEXT(name);                    \
        rest(one_in);                                     \
        type done = ((__typeof__(&(name)))next)arguments; \
        rest(one_in);                                     \
        return done;                                      \
    }

LATE(SEEN, ssize_t, write, (int file, const void *in, size_t bytes), (file, in, bytes))
LATE(SEEN, ssize_t, pwrite, (int file, const void *in, size_t bytes, off_t at),
     (file, in, bytes, at))
LATE(OTHER, ssize_t, read, (int file, void *out, size_t bytes), (file, out, bytes))
LATE(OTHER, ssize_t, pread, (int file, void *out, size_t bytes, off_t at), (file, out, bytes, at))
LATE(SEEN, ssize_t, send, (int socket, const void *in, size_t bytes, int flags),
     (socket, in, bytes, flags))
LATE(SEEN, ssize_t, sendmsg, (int socket, const struct msghdr *in, int flags), (socket, in, flags))
LATE(OTHER, ssize_t, recv, (int socket, void *out, size_t bytes, int flags),
     (socket, out, bytes, flags))
LATE(OTHER, ssize_t, recvmsg, (int socket, struct msghdr *out, int flags), (socket, out, flags))
LATE(OTHER, int, connect, (int socket, const struct sockaddr *to, socklen_t bytes),
     (socket, to, bytes))
LATE(OTHER, int, accept4, (int socket, struct sockaddr *from, socklen_t *bytes, int flags),
     (socket, from, bytes, flags))
LATE(SEEN, int, fsync, (int file), (file))
LATE(SEEN, int, fdatasync, (int file), (file))
LATE(SEEN, int, ftruncate, (int file, off_t bytes), (file, bytes))
LATE(SEEN, int, rename, (const char *from, const char *to), (from, to))
LATE(SEEN, int, unlink, (const char *path), (path))
LATE(OTHER, int, close, (int file), (file))

struct late_thread {
    void *(*run)(void *);
    void *given;
};

static void *begin_late(void *given)
{
    struct late_thread thread = *(struct late_thread *)given;
    free(given);
    rest(4);
    return thread.run(thread.given);
}

int pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*run)(void *), void *given)
{
    struct late_thread *late = malloc(sizeof(*late));
    if (!late)
        return ENOMEM;
    *late = (struct late_thread){run, given};
    int failed = NEXT(pthread_create)(out, how, begin_late, late);
    if (failed)
        free(late);
    return failed;
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
    static int (*_Atomic next)(pthread_mutex_t *);
    if (!next)
        next = NEXT(pthread_mutex_unlock);
    int failed = next(lock);
    rest(LOCK);
    return failed;
}
