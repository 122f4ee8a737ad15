/* SPDX-License-Identifier: MIT */
#include "sampler/service/reserved_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct reserved_names {
    pthread_mutex_t mutex;
    struct reserved_name *first;
};

enum error reserved_names_new(struct reserved_names **ret_set)
{
    struct reserved_names *set = array_new(1, sizeof(*set), "names of streams");
    if (!set)
        return ERROR_MEMORY;
    pthread_mutex_init(&set->mutex, NULL);
    *ret_set = set;
    return OK;
}

void reserved_names_free(struct reserved_names *set)
{
    if (!set)
        return;
    pthread_mutex_destroy(&set->mutex);
    free(set);
}

static struct reserved_name *find(const struct reserved_names *set, const char *name)
{
    struct reserved_name *one = set->first;
    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    return one;
}

bool reserved_names_enter(struct reserved_names *set, struct reserved_name *one, const char *name,
                          struct name_waiter *waiter)
{
    pthread_mutex_lock(&set->mutex);
    struct reserved_name *other = find(set, name);
    if (other) {
        waiter->next = other->waiters;
        other->waiters = waiter;
    } else {
        *one = (struct reserved_name){.next = set->first, .name = name};
        set->first = one;
    }
    pthread_mutex_unlock(&set->mutex);
    return !other;
}

void reserved_names_leave(struct reserved_names *set, struct reserved_name *one)
{
    if (!one->name)
        return;
    pthread_mutex_lock(&set->mutex);
    struct reserved_name **link = &set->first;
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    pthread_mutex_unlock(&set->mutex);
    one->name = NULL;
    for (struct name_waiter *waiter = one->waiters, *next; waiter; waiter = next) {
        next = waiter->next; /* it may be gone once it is woken */
        waiter->wake(waiter);
    }
    one->waiters = NULL;
}

bool reserved_names_has(struct reserved_names *set, const char *name)
{
    pthread_mutex_lock(&set->mutex);
    bool has = find(set, name) != NULL;
    pthread_mutex_unlock(&set->mutex);
    return has;
}
