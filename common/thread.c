/* SPDX-License-Identifier: MIT */
#include "common/thread.h"

#include <errno.h>
#include <signal.h>

#define STACK_BYTES ((size_t)512 << 10) /* at least */

/* Threads have the stack of `ulimit -s`, which may be too small for a log line and a resolver. */
static int create(void *(*body)(void *), void *context, pthread_t *ret_thread)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    int failure = pthread_attr_init(&attributes);
    if (failure)
        return failure;
    failure = pthread_attr_getstacksize(&attributes, &bytes);
    if (!failure && bytes < STACK_BYTES)
        failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!failure)
        failure = pthread_create(ret_thread, &attributes, body, context);
    pthread_attr_destroy(&attributes);
    return failure;
}

enum error thread_start(const char *name, void *(*body)(void *), void *context,
                        pthread_t *ret_thread)
{
    /* Raised by what the thread itself does: blocked, they end the process past its handlers. */
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread has the mask of its maker */
    int failure = create(body, context, ret_thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == EAGAIN) /* also for memory */
        return error_set(
            ERROR_MEMORY,
            "cannot start the thread \"%s\": memory or the number of threads is limited "
            "(ulimit -v, ulimit -u, pids.max and memory.max of a container)",
            name);
    if (failure)
        return error_set_errno(ERROR_MEMORY, failure, "cannot start the thread \"%s\"", name);
    pthread_setname_np(*ret_thread, name);
    return OK;
}
