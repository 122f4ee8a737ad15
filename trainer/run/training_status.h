/* SPDX-License-Identifier: MIT */
/*
 * What a training says of itself over HTTP (--status-listen): /healthz, /readyz, /status and
 * /metrics, on a thread of its own. It reads the report's figures; the training knows nothing of it
 * and pays nothing for it.
 *
 * Threads: both calls from the training's.
 */
#ifndef TRAINER_RUN_TRAINING_STATUS_H
#define TRAINER_RUN_TRAINING_STATUS_H

#include "common/error.h"
#include "trainer/run/report.h"
#include "trainer/run/training.h"

struct training_status;

/* Listens on options->status_host and logs where; *ret_status NULL: there is no such option.
 * Borrows options and report until training_status_close(). ERROR_NETWORK: the port is in use;
 * ERROR_USAGE: the host is not an address of this machine, or tokens or certificate belong to the
 * server that this process runs, too. */
enum error training_status_open(const struct training_options *options, struct report *report,
                                struct training_status **ret_status) MUST_CHECK;
/* NULL is legal. */
void training_status_close(struct training_status *status);

#endif
