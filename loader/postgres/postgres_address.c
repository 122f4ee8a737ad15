/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_address.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/stop.h"
#include "common/thread.h"

#define TICK_MS 100

/* Shared by the thread that asks and the one that waits; the last one to leave frees it. */
struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int holders;
    bool is_done;
    int status;            /* of getaddrinfo() */
    struct addrinfo *list; /* owned */
    char host[];
};

static struct lookup *lookup_new(const char *host)
{
    struct lookup *lookup = array_new(1, sizeof(*lookup) + strlen(host) + 1, "a host's addresses");
    if (!lookup)
        return NULL;
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_cond_init(&lookup->changed, NULL);
    lookup->holders = 1;
    memcpy(lookup->host, host, strlen(host) + 1);
    return lookup;
}

static void lookup_leave(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool is_last = --lookup->holders == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!is_last)
        return;
    if (lookup->list)
        freeaddrinfo(lookup->list);
    pthread_cond_destroy(&lookup->changed);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void *ask(void *context)
{
    struct lookup *lookup = context;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int status = getaddrinfo(lookup->host, NULL, &hints, &list);
    pthread_mutex_lock(&lookup->lock);
    lookup->status = status;
    lookup->list = status ? NULL : list;
    lookup->is_done = true;
    pthread_cond_signal(&lookup->changed);
    pthread_mutex_unlock(&lookup->lock);
    lookup_leave(lookup);
    return NULL;
}

static enum error start(struct lookup *lookup)
{
    pthread_t thread;
    lookup->holders++;
    enum error error = thread_start("tombola-name", ask, lookup, &thread);
    if (error)
        lookup->holders--;
    else
        pthread_detach(thread);
    return error;
}

/* Under the lock. */
static enum error await(struct lookup *lookup, int64_t deadline_ns)
{
    while (!lookup->is_done) {
        int64_t left_ms = clock_left_ms(deadline_ns);
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while waiting for the address of %s",
                             lookup->host);
        if (left_ms == 0)
            return error_set(ERROR_TIMEOUT, "no name server answers for the address of %s",
                             lookup->host);
        struct timespec until =
            clock_timespec(clock_deadline_ns(left_ms < TICK_MS ? left_ms : TICK_MS));
        pthread_cond_clockwait(&lookup->changed, &lookup->lock, CLOCK_MONOTONIC, &until);
    }
    return OK;
}

static enum error take(const struct lookup *lookup, struct postgres_addresses *addresses)
{
    addresses->count = 0;
    for (const struct addrinfo *one = lookup->list;
         one && addresses->count < POSTGRES_ADDRESSES_LIMIT; one = one->ai_next) {
        char *text = addresses->texts[addresses->count];
        addresses->count += getnameinfo(one->ai_addr, one->ai_addrlen, text, POSTGRES_ADDRESS_BYTES,
                                        NULL, 0, NI_NUMERICHOST) == 0;
    }
    if (addresses->count > 0)
        return OK;
    return error_set(ERROR_NETWORK, "%s has no address: %s", lookup->host,
                     lookup->status ? gai_strerror(lookup->status) : "none was found");
}

enum error postgres_addresses_find(const char *host, int64_t deadline_ns,
                                   struct postgres_addresses *ret_addresses)
{
    struct lookup *lookup = lookup_new(host);
    if (!lookup)
        return ERROR_MEMORY;
    enum error error = start(lookup);
    pthread_mutex_lock(&lookup->lock);
    if (!error)
        error = await(lookup, deadline_ns);
    if (!error)
        error = take(lookup, ret_addresses);
    pthread_mutex_unlock(&lookup->lock);
    lookup_leave(lookup);
    return error;
}
