/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD): whatever it sends to a socket leaves some milliseconds
 * later, SLOW_ANSWERS_MS of them.
 */
#include "preloaded.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static void rest(void)
{
    const char *text = getenv("SLOW_ANSWERS_MS");
    long ms = text ? atol(text) : 0;
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

ssize_t send(int socket, const void *data, size_t bytes, int flags)
{
    rest();
    return NEXT(send)(socket, data, bytes, flags);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    rest();
    return NEXT(sendmsg)(socket, message, flags);
}
