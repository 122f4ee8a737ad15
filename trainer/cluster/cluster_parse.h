/* SPDX-License-Identifier: MIT */
/* Which cluster a process is started in: by TF_CONFIG, by flags, or none. */
#ifndef TRAINER_CLUSTER_CLUSTER_PARSE_H
#define TRAINER_CLUSTER_CLUSTER_PARSE_H

#include "trainer/cluster/cluster_flags.h"

/* `tf_config`: the variable's value, or NULL. Neither lists a task: one process. Both do: they must
 * say the same. ERROR_USAGE. Release *ret_cluster with cluster_release(). */
enum error cluster_parse(const char *tf_config, const struct cluster_flags *flags,
                         struct cluster *ret_cluster) MUST_CHECK;

#endif
