/* SPDX-License-Identifier: MIT */
/* Determines the cluster in which a process was started: from TF_CONFIG, from flags, or none. */
#ifndef TRAINER_CLUSTER_CLUSTER_PARSE_H
#define TRAINER_CLUSTER_CLUSTER_PARSE_H

#include "trainer/cluster/cluster_flags.h"

/* `tf_config`: the variable's value, or NULL. If neither lists a task: one process. If both do,
 * they must agree. ERROR_USAGE. Release *ret_cluster with cluster_release(). */
enum error cluster_parse(const char *tf_config, const struct cluster_flags *flags,
                         struct cluster *ret_cluster) MUST_CHECK;

#endif
