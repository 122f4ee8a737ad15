/* SPDX-License-Identifier: MIT */
/* tombola-sampler's commands, one in each command_*.c; main.c only lists them. */
#ifndef SAMPLER_COMMANDS_H
#define SAMPLER_COMMANDS_H

#include "common/command/options.h"

/* Advice for users who look for an option for the batch size: a number follows. */
#define BATCH_SIZE_ADVICE "how many units a batch holds, each request says itself: GET /batch?size="

extern const struct command command_serve;
extern const struct command command_build;
extern const struct command command_info;
extern const struct command command_healthcheck;

#endif
