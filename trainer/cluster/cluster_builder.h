/* SPDX-License-Identifier: MIT */
/*
 * Builds a struct cluster from a list of addresses, for every parser: adds task by task, then
 * checks the rules for all clusters. All failures are ERROR_USAGE and name the source, or
 * ERROR_MEMORY. The caller's storage; release with cluster_release(&builder.cluster).
 */
#ifndef TRAINER_CLUSTER_CLUSTER_BUILDER_H
#define TRAINER_CLUSTER_CLUSTER_BUILDER_H

#include "trainer/cluster/cluster.h"

struct cluster_builder {
    struct cluster cluster; /* set `source` first; role, index and *_known before the finish */
    size_t capacity;        /* of its list of tasks */
};

/* Adds a task at "HOST:PORT"; `place` names where the address is, in messages: "TF_CONFIG". */
enum error cluster_builder_add(struct cluster_builder *builder, const char *place,
                               enum cluster_role role, int64_t index,
                               const char *address) MUST_CHECK;

/* Is this part of a text a name or an address, IPv6 without brackets? */
bool cluster_builder_is_host(const char *host, size_t length);

/* How many tasks of `role` have been added. */
size_t cluster_builder_count(const struct cluster_builder *builder, enum cluster_role role);

/*
 * Sorts the tasks and sets is_chief and is_alone. An index must be unique in its job; no two tasks
 * may share a server's address; this process's task must be listed unless it is an evaluator, or a
 * worker of a cluster that omits workers; a trainer must see every server.
 */
enum error cluster_builder_finish(struct cluster_builder *builder) MUST_CHECK;

#endif
