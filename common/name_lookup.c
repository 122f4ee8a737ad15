/* SPDX-License-Identifier: MIT */
#include "common/name_lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/stop.h"

#define STEP_MS 100

struct lookup {
    int status;            /* of getaddrinfo() */
    struct addrinfo *list; /* owned; NULL: none, or taken */
    char port[8], host[];
};

static void ask(void *context)
{
    struct lookup *lookup = context;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    lookup->status = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->list);
}

static void release(void *context)
{
    struct lookup *lookup = context;
    if (!lookup->status && lookup->list)
        freeaddrinfo(lookup->list);
    free(lookup);
}

static enum error await(struct errand *errand, const char *host, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ms = clock_left_ms(deadline_ns);
        if (errand_wait(errand, clock_deadline_ns(left_ms < STEP_MS ? left_ms : STEP_MS)))
            return OK;
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while waiting for the address of %s", host);
        if (left_ms == 0)
            return error_set(ERROR_TIMEOUT, "no name server answers for the address of %s", host);
    }
}

static enum error take(struct lookup *lookup, struct addrinfo **ret_list)
{
    if (lookup->status)
        return error_set(ERROR_NETWORK, "%s has no address: %s", lookup->host,
                         gai_strerror(lookup->status));
    *ret_list = lookup->list;
    lookup->list = NULL;
    return OK;
}

static enum error start(struct name_lookup *pending, const char *host, uint16_t port)
{
    struct lookup *lookup = array_new(1, sizeof(*lookup) + strlen(host) + 1, "a host's addresses");
    if (!lookup)
        return ERROR_MEMORY;
    memcpy(lookup->host, host, strlen(host) + 1);
    snprintf(lookup->port, sizeof(lookup->port), "%u", (unsigned int)port);
    enum error error = errand_new(ask, release, lookup, &pending->errand);
    if (error) {
        free(lookup);
        return error;
    }
    pending->lookup = lookup;
    return errand_start(pending->errand, "tombola-name");
}

enum error name_lookup_wait(struct name_lookup *pending, const char *host, uint16_t port,
                            int64_t deadline_ns, struct addrinfo **ret_list)
{
    enum error error = pending->errand ? OK : start(pending, host, port);
    if (!error)
        error = await(pending->errand, host, deadline_ns);
    if (error == ERROR_TIMEOUT)
        return error;
    if (!error)
        error = take(pending->lookup, ret_list);
    name_lookup_leave(pending);
    return error;
}

void name_lookup_leave(struct name_lookup *pending)
{
    errand_leave(pending->errand);
    *pending = (struct name_lookup){.errand = NULL};
}

enum error name_lookup(const char *host, uint16_t port, int64_t deadline_ns,
                       struct addrinfo **ret_list)
{
    struct name_lookup pending = {.errand = NULL};
    enum error error = name_lookup_wait(&pending, host, port, deadline_ns, ret_list);
    name_lookup_leave(&pending);
    return error;
}
