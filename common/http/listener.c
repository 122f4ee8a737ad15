/* SPDX-License-Identifier: MIT */
#include "common/http/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/array.h"
#include "common/listen_socket.h"
#include "common/log.h"
#include "common/thread.h"

/* How long to wait for room, or for descriptors and memory if the system is short of them. */
#define NAP_MS 10

/* ---- the socket --------------------------------------------------------- */

static uint16_t port_of(int descriptor)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.six = {0}};
    socklen_t length = sizeof(address);
    if (getsockname(descriptor, &address.any, &length) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
}

enum error listener_check_host(const char *host, uint16_t port)
{
    enum error error = listen_socket_check(host, port);
    return error ? error_prefix(error, "--listen ") : OK;
}

enum error listener_bind(const char *option, const char *host, uint16_t port, int *ret_descriptor,
                         char ret_url[LISTENER_URL_BYTES])
{
    enum error error =
        listen_socket_open(host, port, "; choose another, or 0 for a free one", ret_descriptor);
    if (error)
        return error_prefix(error, "--%s ", option);
    const char *format = strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u";
    snprintf(ret_url, LISTENER_URL_BYTES, format, host, (unsigned int)port_of(*ret_descriptor));
    return OK;
}

/* ---- its connections ---------------------------------------------------- */

struct listener {
    pthread_t thread;
    struct http_threads *threads;    /* borrowed */
    struct http_thread *next;        /* whose turn it is */
    struct connections *connections; /* borrowed */
    int descriptor;                  /* of the listening socket */
    int bell;                        /* an eventfd: the thread is to end */
    _Atomic bool ending;
};

/* Waits until the socket has something (without `accepts`, a moment), or the thread should end. */
static void wait_for_more(const struct listener *listener, bool accepts)
{
    struct pollfd watched[2] = {{.fd = listener->bell, .events = POLLIN},
                                {.fd = listener->descriptor, .events = POLLIN}};
    (void)poll(watched, accepts ? 2 : 1, accepts ? -1 : NAP_MS);
}

/* False: not now. */
static bool accept_one(struct listener *listener, bool *ret_short)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int descriptor = accept4(listener->descriptor, (struct sockaddr *)&address, &length,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    *ret_short = false;
    if (descriptor < 0) {
        *ret_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (*ret_short)
            log_debug("cannot accept a connection: %s", strerror(errno));
        return errno == EINTR || errno == ECONNABORTED;
    }
    connections_expect(listener->connections);
    event_loop_add(&listener->next->loop, descriptor, &address, length);
    listener->next = listener->next->next ? listener->next->next : listener->threads->first;
    return true;
}

static void *accept_all(void *context)
{
    struct listener *listener = context;
    while (!atomic_load(&listener->ending)) {
        bool is_short = false;
        bool room = connections_have_room(listener->connections);
        if (!room || !accept_one(listener, &is_short))
            wait_for_more(listener, room && !is_short);
    }
    return NULL;
}

static void release(struct listener *listener)
{
    if (listener->bell >= 0)
        close(listener->bell);
    close(listener->descriptor);
    free(listener);
}

enum error listener_start(int descriptor, struct http_threads *threads,
                          struct connections *connections, struct listener **ret_listener)
{
    struct listener *listener = array_new(1, sizeof(*listener), "the listener");
    if (!listener) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    listener->threads = threads;
    listener->next = threads->first;
    listener->connections = connections;
    listener->descriptor = descriptor;
    listener->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int flags = fcntl(descriptor, F_GETFL);
    bool ready =
        listener->bell >= 0 && flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
    enum error error =
        ready ? thread_start("accept", accept_all, listener, &listener->thread)
              : error_set_errno(ERROR_NETWORK, errno, "cannot start to accept connections");
    if (error) {
        release(listener);
        return error;
    }
    *ret_listener = listener;
    return OK;
}

void listener_stop(struct listener *listener)
{
    if (!listener)
        return;
    atomic_store(&listener->ending, true);
    (void)eventfd_write(listener->bell, 1);
    pthread_join(listener->thread, NULL);
    release(listener);
}
