/* SPDX-License-Identifier: MIT */
/*
 * The processes of a cluster that hold parameters: a ps, until the training is over; and the chief
 * of a cluster without a ps, which runs server 0 on a thread beside its own training.
 */
#ifndef TRAINER_RUN_PARAMETER_SERVER_H
#define TRAINER_RUN_PARAMETER_SERVER_H

#include "common/error.h"
#include "trainer/run/training.h"

/* Serves until the training is over. ERROR_CANCELLED after a signal. */
enum error parameter_server_run(const struct training_options *options) MUST_CHECK;

/* The server's thread. If it fails, this thread's waits end as after a signal (common/stop.h). */
struct parameter_server;
enum error parameter_server_start(const struct training_options *options,
                                  struct parameter_server **ret_server) MUST_CHECK;
/* Waits for the training's end (`failed`: this process has failed, and the server ends at once,
 * with a last cut). Returns the server's error. NULL is legal. */
enum error parameter_server_join(struct parameter_server *server, bool failed) MUST_CHECK;

#endif
