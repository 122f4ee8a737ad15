#include "sampler/http/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/array.h"
#include "common/log.h"

/* How long it waits for room, or for descriptors and memory that the system is short of. */
#define NAP_MS 10

struct acceptor {
    pthread_t thread;
    struct http_threads *threads;    /* borrowed */
    struct http_thread *next;        /* whose turn it is */
    struct connections *connections; /* borrowed */
    int descriptor;                  /* of the listening socket */
    int bell;                        /* an eventfd: the thread is to end */
    _Atomic bool ending;
};

/* Until the socket has something (or, without `accepts`, a moment), or the thread is to end. */
static void wait_for_more(const struct acceptor *acceptor, bool accepts)
{
    struct pollfd watched[2] = {{.fd = acceptor->bell, .events = POLLIN},
                                {.fd = acceptor->descriptor, .events = POLLIN}};
    (void)poll(watched, accepts ? 2 : 1, accepts ? -1 : NAP_MS);
}

/* False: not now. */
static bool accept_one(struct acceptor *acceptor, bool *ret_short)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int descriptor = accept4(acceptor->descriptor, (struct sockaddr *)&address, &length,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    *ret_short = false;
    if (descriptor < 0) {
        *ret_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (*ret_short)
            log_debug("cannot accept a connection: %s", strerror(errno));
        return errno == EINTR || errno == ECONNABORTED;
    }
    connections_expect(acceptor->connections);
    if (!event_loop_add(&acceptor->next->loop, descriptor, &address, length))
        connections_expect_less(acceptor->connections);
    acceptor->next = acceptor->next->next ? acceptor->next->next : acceptor->threads->first;
    return true;
}

static void *accept_all(void *context)
{
    struct acceptor *acceptor = context;
    while (!atomic_load(&acceptor->ending)) {
        bool is_short = false;
        bool room = connections_have_room(acceptor->connections);
        if (!room || !accept_one(acceptor, &is_short))
            wait_for_more(acceptor, room && !is_short);
    }
    return NULL;
}

/* Signals are for the other threads. */
static int start_thread(struct acceptor *acceptor)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&acceptor->thread, NULL, accept_all, acceptor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static void release(struct acceptor *acceptor)
{
    if (acceptor->bell >= 0)
        close(acceptor->bell);
    close(acceptor->descriptor);
    free(acceptor);
}

enum error acceptor_new(int descriptor, struct http_threads *threads,
                        struct connections *connections, struct acceptor **ret_acceptor)
{
    struct acceptor *acceptor = array_new(1, sizeof(*acceptor), "the acceptor");
    if (!acceptor) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    acceptor->threads = threads;
    acceptor->next = threads->first;
    acceptor->connections = connections;
    acceptor->descriptor = descriptor;
    acceptor->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int flags = fcntl(descriptor, F_GETFL);
    bool ready =
        acceptor->bell >= 0 && flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
    int code = ready ? start_thread(acceptor) : errno;
    if (code != 0) {
        release(acceptor);
        return error_set_errno(ERROR_NETWORK, code, "cannot start to accept connections");
    }
    *ret_acceptor = acceptor;
    return OK;
}

void acceptor_free(struct acceptor *acceptor)
{
    if (!acceptor)
        return;
    atomic_store(&acceptor->ending, true);
    (void)eventfd_write(acceptor->bell, 1);
    pthread_join(acceptor->thread, NULL);
    release(acceptor);
}
