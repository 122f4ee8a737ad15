/* SPDX-License-Identifier: MIT */
/*
 * Asks server 0 to end a training early: granted batches are still trained on, then it ends as
 * usual, with a last checkpoint and exit status 0 everywhere.
 */
#ifndef TRAINER_EXCHANGE_STOP_REQUEST_H
#define TRAINER_EXCHANGE_STOP_REQUEST_H

#include "common/error.h"
#include "trainer/cluster/cluster.h"

/* Returns once server 0 has accepted. ERROR_NETWORK, ERROR_TIMEOUT: server 0 is away, or training
 * has not begun; try again later. */
enum error stop_request_send(const struct cluster *cluster) MUST_CHECK;

#endif
