/* SPDX-License-Identifier: MIT */
/*
 * Makes a struct cluster out of a list of addresses, whoever reads it: adds task by task, then
 * checks what holds for every cluster. All failures are ERROR_USAGE and name the source, or
 * ERROR_MEMORY. The caller's storage; release with cluster_release(&builder.cluster).
 */
#ifndef TRAINER_CLUSTER_CLUSTER_BUILDER_H
#define TRAINER_CLUSTER_CLUSTER_BUILDER_H

#include "trainer/cluster/cluster.h"

struct cluster_builder {
    struct cluster cluster; /* `source` first; role, index and what is known before the finish */
    size_t capacity;        /* of its list of tasks */
};

/* A task at "HOST:PORT"; `place` names what holds the address in messages: "TF_CONFIG". */
enum error cluster_builder_add(struct cluster_builder *builder, const char *place,
                               enum cluster_role role, int64_t index,
                               const char *address) MUST_CHECK;

/* Is this part of a text a name or an address, IPv6 without brackets? */
bool cluster_builder_is_host(const char *host, size_t length);

/* How many tasks of `role` were added so far. */
size_t cluster_builder_count(const struct cluster_builder *builder, enum cluster_role role);

/*
 * Sorts the tasks and decides is_chief and is_alone. No index may come twice in a job; no two tasks
 * may share a server's address; the own task must be listed unless it is an evaluator, or a worker
 * of a cluster that leaves workers out; a trainer must see every server.
 */
enum error cluster_builder_finish(struct cluster_builder *builder) MUST_CHECK;

#endif
