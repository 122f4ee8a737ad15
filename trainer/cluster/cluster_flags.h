/* SPDX-License-Identifier: MIT */
/*
 * Builds a cluster from the flags of the classic programs:
 *
 *   --ps_hosts p0:2222,p1:2222 --worker_hosts w0:2222,w1:2222 --job_name worker --task_index 1
 *
 * As tf.train.Server: no chief, worker 0 takes its place. In addition: without --worker-hosts any
 * number of workers may join, with any index; an evaluator needs no hosts; the index of a job's
 * only task may be omitted.
 */
#ifndef TRAINER_CLUSTER_CLUSTER_FLAGS_H
#define TRAINER_CLUSTER_CLUSTER_FLAGS_H

#include "trainer/cluster/cluster.h"

struct cluster_flags {
    const char *ps_hosts, *worker_hosts; /* "HOST:PORT,HOST:PORT"; NULL or "": none */
    const char *job_name;                /* "ps", "worker", "evaluator"; NULL or "": not given */
    int64_t task_index;                  /* from 0 to CLUSTER_INDEX_LIMIT */
    bool task_index_given;
};

/* No hosts and no job: one process, with no `source`. ERROR_USAGE. */
enum error cluster_flags_parse(const struct cluster_flags *flags,
                               struct cluster *ret_cluster) MUST_CHECK;

#endif
