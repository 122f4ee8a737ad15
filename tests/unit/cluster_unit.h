/* SPDX-License-Identifier: MIT */
/*
 * A cluster in one line, so that a test names all of it at once:
 *
 *   "worker 1: chief c:1; worker a:1 b:1; ps p:1; trainers 3, server p:1"
 *
 * Behind the own task stand the words that are not as usual: "chief", "alone", "serves", "sparse"
 * (workers may be left out), "lone" (servers may be).
 */
#ifndef TESTS_UNIT_CLUSTER_UNIT_H
#define TESTS_UNIT_CLUSTER_UNIT_H

#include "tests/unit/unit.h"

#include <inttypes.h>

#include "common/buffer.h"
#include "trainer/cluster/cluster.h"

static inline void cluster_show_job(const struct cluster *cluster, enum cluster_role role,
                                    struct buffer *out)
{
    char address[CLUSTER_ADDRESS_BYTES];
    size_t count = cluster_count(cluster, role);
    if (count == 0)
        return;
    buffer_print(out, " %s", cluster_role_name(cluster, role));
    for (size_t i = 0; i < count; i++) {
        const struct cluster_task *task = &cluster->tasks[cluster->begin[role] + i];
        assert_int_equal(task->role, role);
        assert_ptr_equal(cluster_task(cluster, role, task->index), task);
        buffer_add_text(out, " ");
        if (task->index != (int64_t)i)
            buffer_print(out, "%" PRId64 "=", task->index);
        buffer_add_text(out, cluster_task_address(task, address));
    }
    buffer_add_text(out, ";");
}

/* Valid until the next call. */
static inline const char *cluster_show(const struct cluster *cluster)
{
    static char text[1024];
    char address[CLUSTER_ADDRESS_BYTES];
    struct buffer out = BUFFER_INIT(sizeof(text) - 1);
    buffer_print(&out, "%s %" PRId64 "%s%s%s%s%s:", cluster_role_name(cluster, cluster->role),
                 cluster->index, cluster->is_chief ? " chief" : "",
                 cluster->is_alone ? " alone" : "", cluster_runs_server(cluster) ? " serves" : "",
                 cluster->workers_known ? "" : " sparse", cluster->servers_known ? "" : " lone");
    for (int role = 0; role < CLUSTER_ROLES; role++)
        cluster_show_job(cluster, (enum cluster_role)role, &out);
    buffer_print(&out, " trainers %zu", cluster_trainer_count(cluster));
    for (size_t i = 0; i < cluster_server_count(cluster); i++)
        buffer_print(&out, "%s %s", i == 0 ? ", server" : "",
                     cluster_task_address(cluster_server(cluster, i), address));
    assert_ok(out.error);
    memcpy(text, out.data, out.length + 1);
    buffer_release(&out);
    return text;
}

#endif
