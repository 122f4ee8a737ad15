#include "sampler/http/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */

static enum error bind_error(const char *host, uint16_t port, int errno_value)
{
    switch (errno_value) {
    case EADDRINUSE:
        return error_set(
            ERROR_NETWORK,
            "--listen %s:%u: the port is in use by another program; choose another, or "
            "0 for a free one",
            host, (unsigned int)port);
    case EADDRNOTAVAIL:
        return error_set(ERROR_USAGE,
                         "--listen %s:%u: this machine has no such address; 0.0.0.0 means all of "
                         "them",
                         host, (unsigned int)port);
    default:
        return error_set_errno(ERROR_NETWORK, errno_value, "--listen %s:%u", host,
                               (unsigned int)port);
    }
}

static enum error listen_on(const struct addrinfo *address, const char *host, uint16_t port,
                            int *ret_descriptor)
{
    int on = 1;
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return error_set_errno(ERROR_NETWORK, errno, "--listen %s:%u", host, (unsigned int)port);
    (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(descriptor, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(descriptor, BACKLOG) == 0) {
        *ret_descriptor = descriptor;
        return OK;
    }
    int errno_value = errno;
    close(descriptor);
    return bind_error(host, port, errno_value);
}

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

/* A name may have addresses of both kinds ("localhost"): clients expect the older one. */
static const struct addrinfo *choose(const struct addrinfo *list)
{
    for (const struct addrinfo *address = list; address; address = address->ai_next) {
        if (address->ai_family == AF_INET)
            return address;
    }
    return list;
}

enum error listener_open(const char *host, uint16_t port, int *ret_descriptor,
                         char ret_url[LISTENER_URL_BYTES])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    int descriptor = -1;
    snprintf(service, sizeof(service), "%u", (unsigned int)port);
    int status = getaddrinfo(host, service, &hints, &list);
    if (status != 0)
        return error_set(ERROR_USAGE, "--listen %s:%u: cannot find the address: %s", host,
                         (unsigned int)port, gai_strerror(status));
    enum error error = listen_on(choose(list), host, port, &descriptor);
    freeaddrinfo(list);
    if (error)
        return error;
    const char *format = strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u";
    snprintf(ret_url, LISTENER_URL_BYTES, format, host, (unsigned int)port_of(descriptor));
    *ret_descriptor = descriptor;
    return OK;
}
