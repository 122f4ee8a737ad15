/* SPDX-License-Identifier: MIT */
/*
 * Asks server 0 to end a training before its last step: batches that are granted are still learnt
 * from, then it ends as always, with a last checkpoint and exit status 0 of all.
 */
#ifndef TRAINER_EXCHANGE_STOP_REQUEST_H
#define TRAINER_EXCHANGE_STOP_REQUEST_H

#include "common/error.h"
#include "trainer/cluster/cluster.h"

/* Returns once server 0 has taken it. ERROR_NETWORK, ERROR_TIMEOUT: it is away, or a generation is
 * not under way yet: ask again later. */
enum error stop_request_send(const struct cluster *cluster) MUST_CHECK;

#endif
