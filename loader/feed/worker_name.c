/* SPDX-License-Identifier: MIT */
#include "loader/feed/worker_name.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void worker_name_host(char ret_host[WORKER_HOST_BYTES])
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    memset(ret_host, 0, WORKER_HOST_BYTES); /* a longer name is cut, and not terminated */
    if (gethostname(ret_host, WORKER_HOST_BYTES - 1) || !ret_host[0])
        snprintf(ret_host, WORKER_HOST_BYTES, "host");
    for (char *at = ret_host + strspn(ret_host, allowed); *at; at += strspn(at, allowed))
        *at = '-';
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct worker_name *names;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_in_child(void)
{
    names = NULL;
    pthread_mutex_unlock(&lock);
}

static void follow_forks(void)
{
    pthread_atfork(before_fork, after_in_parent, after_in_child);
}

static bool is_same(const struct worker_name *one, const struct worker_name *other)
{
    return strcmp(one->worker, other->worker) == 0 && strcmp(one->stream, other->stream) == 0 &&
           strcmp(one->url, other->url) == 0;
}

enum error worker_name_claim(struct worker_name *name)
{
    pthread_once(&once, follow_forks);
    pthread_mutex_lock(&lock);
    const struct worker_name *other = names;
    while (other && !is_same(other, name))
        other = other->next;
    if (!other) {
        name->next = names;
        names = name;
    }
    pthread_mutex_unlock(&lock);
    if (!other)
        return OK;
    return error_set(ERROR_USAGE,
                     "worker %s already leases from stream %s of %s in this process; each feed "
                     "needs a name of its own, since the first to end releases what the name holds",
                     name->worker, name->stream, name->url);
}

void worker_name_give_up(struct worker_name *name)
{
    pthread_mutex_lock(&lock);
    struct worker_name **at = &names;
    while (*at && *at != name)
        at = &(*at)->next;
    if (*at)
        *at = name->next;
    pthread_mutex_unlock(&lock);
}
