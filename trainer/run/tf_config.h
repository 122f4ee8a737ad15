/* SPDX-License-Identifier: MIT */
/*
 * TF_CONFIG, the environment variable by which the classic platforms tell a process its cluster and
 * its task. One process trains alone here: a TF_CONFIG without a cluster, or whose cluster is this
 * one task, is accepted; a cluster of several is refused.
 */
#ifndef TRAINER_RUN_TF_CONFIG_H
#define TRAINER_RUN_TF_CONFIG_H

#include "common/error.h"

/* `text`: the variable's value; NULL or "" is local. ERROR_USAGE naming what is wrong or cannot be
 * served. */
enum error tf_config_check_local(const char *text) MUST_CHECK;

#endif
