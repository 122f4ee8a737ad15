/* SPDX-License-Identifier: MIT */
#include "trainer/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cluster_init(struct cluster *cluster)
{
    *cluster = (struct cluster){.role = CLUSTER_WORKER,
                                .is_chief = true,
                                .is_alone = true,
                                .workers_known = true,
                                .servers_known = true};
}

void cluster_release(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->task_count; i++)
        free(cluster->tasks[i].host);
    free(cluster->tasks);
    cluster_init(cluster);
}

size_t cluster_count(const struct cluster *cluster, enum cluster_role role)
{
    return cluster->begin[role + 1] - cluster->begin[role];
}

const struct cluster_task *cluster_task(const struct cluster *cluster, enum cluster_role role,
                                        int64_t index)
{
    for (size_t i = cluster->begin[role]; i < cluster->begin[role + 1]; i++) {
        if (cluster->tasks[i].index == index)
            return &cluster->tasks[i];
    }
    return NULL;
}

size_t cluster_trainer_count(const struct cluster *cluster)
{
    size_t listed = cluster_count(cluster, CLUSTER_CHIEF) + cluster_count(cluster, CLUSTER_WORKER);
    return cluster->is_alone ? 1 : listed;
}

/* The task whose process runs a server if there is no ps; NULL: not listed. */
static const struct cluster_task *find_chief(const struct cluster *cluster)
{
    if (cluster_count(cluster, CLUSTER_CHIEF) > 0)
        return &cluster->tasks[cluster->begin[CLUSTER_CHIEF]];
    return cluster_task(cluster, CLUSTER_WORKER, 0);
}

size_t cluster_server_count(const struct cluster *cluster)
{
    size_t listed = cluster_count(cluster, CLUSTER_PS);
    if (listed > 0 || cluster->is_alone)
        return listed;
    return find_chief(cluster) ? 1 : 0;
}

const struct cluster_task *cluster_server(const struct cluster *cluster, size_t number)
{
    if (cluster_count(cluster, CLUSTER_PS) > 0)
        return &cluster->tasks[cluster->begin[CLUSTER_PS] + number];
    return find_chief(cluster);
}

bool cluster_runs_server(const struct cluster *cluster)
{
    if (cluster->role == CLUSTER_PS)
        return true;
    return cluster->is_chief && !cluster->is_alone && cluster_count(cluster, CLUSTER_PS) == 0;
}

const char *cluster_role_name(const struct cluster *cluster, enum cluster_role role)
{
    static const char *const names[CLUSTER_ROLES] = {"chief", "worker", "ps", "evaluator"};
    return role == CLUSTER_CHIEF && cluster->chief_is_master ? "master" : names[role];
}

const char *cluster_task_address(const struct cluster_task *task, char out[CLUSTER_ADDRESS_BYTES])
{
    bool brackets = strchr(task->host, ':') != NULL;
    snprintf(out, CLUSTER_ADDRESS_BYTES, "%s%s%s:%u", brackets ? "[" : "", task->host,
             brackets ? "]" : "", (unsigned)task->port);
    return out;
}
