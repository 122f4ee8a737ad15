/* SPDX-License-Identifier: MIT */
/*
 * TF_CONFIG, the environment variable in which the classic platforms describe the cluster and the
 * task of a process:
 *
 *   {"cluster":{"chief":["c0:2222"],"ps":["p0:2222"],"worker":["w0:2222","w1:2222"]},
 *    "task":{"type":"worker","index":1}}
 *
 * Checks and messages follow the Estimators' RunConfig, except for what tf.train.Server also
 * accepts and what operators write (README, rules 2 to 5).
 */
#ifndef TRAINER_CLUSTER_TF_CONFIG_H
#define TRAINER_CLUSTER_TF_CONFIG_H

#include "common/buffer.h"
#include "trainer/cluster/cluster.h"

/* `text`: the variable's value; NULL, "" or no task in it: one process, with no `source`.
 * ERROR_USAGE. */
enum error tf_config_parse(const char *text, struct cluster *ret_cluster) MUST_CHECK;

/* Appends the value for task `index` of `role`; each job's tasks must be numbered without a hole.
 * Does not depend on which process of the cluster this one is. */
enum error tf_config_print(const struct cluster *cluster, enum cluster_role role, int64_t index,
                           struct buffer *out) MUST_CHECK;

#endif
