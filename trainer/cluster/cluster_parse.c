/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/cluster_parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trainer/cluster/tf_config.h"

#define PLACE_BYTES (CLUSTER_ADDRESS_BYTES + 64)

/* "worker 1 at w1:2222" */
static const char *describe(const struct cluster *cluster, const struct cluster_task *task,
                            char out[PLACE_BYTES])
{
    char address[CLUSTER_ADDRESS_BYTES];
    if (!task)
        return "no further task";
    snprintf(out, PLACE_BYTES, "%s %" PRId64 " at %s", cluster_role_name(cluster, task->role),
             task->index, cluster_task_address(task, address));
    return out;
}

static const struct cluster_task *task_at(const struct cluster *cluster, size_t place)
{
    return place < cluster->task_count ? &cluster->tasks[place] : NULL;
}

static bool is_same_task(const struct cluster_task *a, const struct cluster_task *b)
{
    return a && b && a->role == b->role && a->index == b->index && a->port == b->port &&
           strcmp(a->host, b->host) == 0;
}

static enum error compare(const struct cluster *variable, const struct cluster *flags)
{
    char here[PLACE_BYTES], there[PLACE_BYTES];
    if (variable->role != flags->role || variable->index != flags->index)
        return error_set(ERROR_USAGE,
                         "TF_CONFIG makes this process %s %" PRId64 ", --job-name and --task-index "
                         "make it %s %" PRId64 "; leave one of them out",
                         cluster_role_name(variable, variable->role), variable->index,
                         cluster_role_name(flags, flags->role), flags->index);
    for (size_t i = 0; task_at(variable, i) || task_at(flags, i); i++) {
        if (!is_same_task(task_at(variable, i), task_at(flags, i)))
            return error_set(ERROR_USAGE,
                             "TF_CONFIG and %s list different clusters: TF_CONFIG has %s, the "
                             "flags have %s; leave one of them out",
                             flags->source, describe(variable, task_at(variable, i), here),
                             describe(flags, task_at(flags, i), there));
    }
    return OK;
}

enum error cluster_parse(const char *tf_config, const struct cluster_flags *flags,
                         struct cluster *ret_cluster)
{
    struct cluster by_variable, by_flags;
    cluster_init(&by_flags);
    enum error error = tf_config_parse(tf_config, &by_variable);
    if (error)
        return error;
    error = cluster_flags_parse(flags, &by_flags);
    if (!error && by_variable.source && by_flags.source)
        error = compare(&by_variable, &by_flags);
    struct cluster *chosen = by_flags.source ? &by_flags : &by_variable;
    if (!error) {
        *ret_cluster = *chosen;
        cluster_init(chosen); /* moved */
    }
    cluster_release(&by_variable);
    cluster_release(&by_flags);
    return error;
}
