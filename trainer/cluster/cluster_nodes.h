/* SPDX-License-Identifier: MIT */
/*
 * A cluster of nodes that each run two tasks: a ps, and the master (on the first node) or a worker.
 * So the parameters are spread over all nodes, and nodes differ only in their tasks.
 */
#ifndef TRAINER_CLUSTER_CLUSTER_NODES_H
#define TRAINER_CLUSTER_CLUSTER_NODES_H

#include "trainer/cluster/cluster.h"

/* `nodes`: "HOST,HOST,...", IPv6 with or without brackets. Node i runs ps i at `ps_port`, and at
 * `worker_port` the master (node 0) or worker i - 1. ERROR_USAGE. */
enum error cluster_nodes_parse(const char *nodes, int64_t ps_port, int64_t worker_port,
                               struct cluster *ret_cluster) MUST_CHECK;

/* The other task of ps `node`. Borrowed. */
const struct cluster_task *cluster_nodes_trainer(const struct cluster *cluster, size_t node);

#endif
