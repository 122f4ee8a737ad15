/* SPDX-License-Identifier: MIT */
/*
 * A training's status over HTTP (--status-listen): /healthz, /readyz, /status and /metrics, on a
 * separate thread. It reads the report's figures; the training does not know of it and pays nothing
 * for it.
 *
 * Threads: the training's.
 */
#ifndef TRAINER_RUN_TRAINING_STATUS_H
#define TRAINER_RUN_TRAINING_STATUS_H

#include "common/error.h"
#include "trainer/run/report.h"
#include "trainer/run/training.h"

struct training_status;

/* Listens on options->status_host and logs the address; *ret_status NULL: the option was not given.
 * Borrows options and report until training_status_close(). ERROR_NETWORK: the port is in use;
 * ERROR_USAGE: the host is not an address of this machine, or the tokens or certificate also belong
 * to the server that this process runs. */
enum error training_status_open(const struct training_options *options, struct report *report,
                                struct training_status **ret_status) MUST_CHECK;
/* NULL is legal. */
void training_status_close(struct training_status *status);

#endif
