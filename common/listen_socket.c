/* SPDX-License-Identifier: MIT */
#include "common/listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */

#define SHOWN_BYTES 320 /* a host's name, and the port */

/* As HOST:PORT is given: an IPv6 address in brackets. */
static const char *show(char out[SHOWN_BYTES], const char *host, uint16_t port)
{
    snprintf(out, SHOWN_BYTES, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, (unsigned int)port);
    return out;
}

static enum error resolve(const char *host, uint16_t port, struct addrinfo **ret_list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char service[8], shown[SHOWN_BYTES];
    snprintf(service, sizeof(service), "%u", (unsigned int)port);
    int status = getaddrinfo(host, service, &hints, ret_list);
    if (status == 0)
        return OK;
    return error_set(status == EAI_MEMORY ? ERROR_MEMORY : ERROR_USAGE,
                     "%s: cannot find the address: %s", show(shown, host, port),
                     gai_strerror(status));
}

/* A name may have addresses of both kinds ("localhost"): clients expect IPv4. */
static const struct addrinfo *choose(const struct addrinfo *list)
{
    for (const struct addrinfo *address = list; address; address = address->ai_next) {
        if (address->ai_family == AF_INET)
            return address;
    }
    return list;
}

static bool has_loopback(const struct addrinfo *list, int family)
{
    char host[INET6_ADDRSTRLEN];
    for (; list; list = list->ai_next) {
        if (list->ai_family == family &&
            getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof(host), NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            listen_socket_is_loopback(host))
            return true;
    }
    return false;
}

/* "localhost" is this machine alone, whatever the resolver says: callers rely on it (RFC 6761). */
static const char *address_of(const char *host, uint16_t port)
{
    struct addrinfo *list;
    if (strcmp(host, "localhost") != 0)
        return host;
    if (resolve(host, port, &list))
        return "127.0.0.1";
    bool is_six = !has_loopback(list, AF_INET) && has_loopback(list, AF_INET6);
    freeaddrinfo(list);
    return is_six ? "::1" : "127.0.0.1";
}

/* errno is the failed call's. */
static int listen_on(const struct addrinfo *address)
{
    int on = 1, off = 0;
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ai_family == AF_INET6) /* "::" means IPv4, too, whatever the system's default is */
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(descriptor, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(descriptor, BACKLOG) == 0)
        return descriptor;
    int number = errno;
    close(descriptor);
    errno = number;
    return -1;
}

enum error listen_socket_check(const char *host, uint16_t port)
{
    struct addrinfo *list;
    enum error error = resolve(host, port, &list);
    if (!error)
        freeaddrinfo(list);
    return error;
}

enum error listen_socket_open(const char *host, uint16_t port, const char *advice,
                              int *ret_descriptor)
{
    char shown[SHOWN_BYTES];
    struct addrinfo *list;
    enum error error = resolve(address_of(host, port), port, &list);
    if (error)
        return error;
    int descriptor = listen_on(choose(list)), number = errno;
    freeaddrinfo(list);
    if (descriptor >= 0) {
        *ret_descriptor = descriptor;
        return OK;
    }
    show(shown, host, port);
    if (number == EADDRINUSE)
        return error_set(ERROR_NETWORK, "%s: the port is in use by another program%s", shown,
                         advice);
    if (number == EADDRNOTAVAIL)
        return error_set(ERROR_USAGE,
                         "%s: this machine has no such address; 0.0.0.0 means all of them", shown);
    return error_set_errno(ERROR_NETWORK, number, "%s", shown);
}

enum error listen_socket_open_any(uint16_t port, const char *advice, int *ret_descriptor)
{
    if (!listen_socket_open("::", port, advice, ret_descriptor))
        return OK;
    return listen_socket_open("0.0.0.0", port, advice, ret_descriptor); /* a system without IPv6 */
}

bool listen_socket_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(host, "localhost") == 0;
}
