/* SPDX-License-Identifier: MIT */
/* The commands of tombola-loader, one file each (command_*.c); main.c only lists them. */
#ifndef LOADER_TOOL_COMMANDS_H
#define LOADER_TOOL_COMMANDS_H

#include "common/command/options.h"

extern const struct command command_cache;
extern const struct command command_check;
extern const struct command command_demo;
extern const struct command command_import;
extern const struct command command_info;
extern const struct command command_pull;

#endif
