/* SPDX-License-Identifier: MIT */
#include "common/thread.h"

#include <signal.h>

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
    int failure = pthread_create(ret_thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return error_set_errno(ERROR_MEMORY, failure, "cannot start the thread \"%s\"", name);
    pthread_setname_np(*ret_thread, name);
    return OK;
}
