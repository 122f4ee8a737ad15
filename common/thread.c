#include "common/thread.h"

#include <signal.h>

enum error thread_start(const char *name, void *(*body)(void *), void *context,
                        pthread_t *ret_thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread has the mask of its maker */
    int failure = pthread_create(ret_thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return error_set_errno(ERROR_MEMORY, failure, "cannot start the thread \"%s\"", name);
    pthread_setname_np(*ret_thread, name);
    return OK;
}
