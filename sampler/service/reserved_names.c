/* SPDX-License-Identifier: MIT */
#include "sampler/service/reserved_names.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "sampler/ledger/conflicts.h"

void reserved_names_init(struct reserved_names *set)
{
    *set = (struct reserved_names){.first = NULL};
    pthread_mutex_init(&set->mutex, NULL);
}

void reserved_names_release(struct reserved_names *set)
{
    pthread_mutex_destroy(&set->mutex);
}

static const struct reserved_name *find(const struct reserved_names *set, const char *name)
{
    const struct reserved_name *one = set->first;
    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    return one;
}

enum error reserved_names_enter(struct reserved_names *set, struct reserved_name *one,
                                const char *name)
{
    int64_t now_ns = clock_now_ns();
    int64_t since_ns = now_ns;
    pthread_mutex_lock(&set->mutex);
    const struct reserved_name *other = find(set, name);
    if (other) {
        since_ns = other->since_ns;
    } else {
        *one = (struct reserved_name){.next = set->first, .name = name, .since_ns = now_ns};
        set->first = one;
    }
    pthread_mutex_unlock(&set->mutex);
    if (!other)
        return OK;
    enum error error =
        error_set(ERROR_CONFLICT,
                  "the stream \"%s\" is being made, for %" PRId64 " s so far (a split or groups of "
                  "many units take a while); GET /streams/%s answers when it is there",
                  name, (now_ns - since_ns) / INT64_C(1000000000), name);
    return error_set_kind(error, PROBLEM_NAME_IN_USE);
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
}
