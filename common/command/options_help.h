/* SPDX-License-Identifier: MIT */
/* What `--help` and `--version` print. Private to options.c and program.c. */
#ifndef COMMON_COMMAND_OPTIONS_HELP_H
#define COMMON_COMMAND_OPTIONS_HELP_H

#include <stdio.h>

#include "common/command/options.h"

/* Prints the program's usage line and its commands. */
void options_print_program_help(FILE *out, const struct program *program);

/* Prints one command: usage, summary, every option with default and range, where values come from,
 * exit statuses, details. `builtin`: the options that every command has. */
void options_print_command_help(FILE *out, const struct program *program,
                                const struct command *command, const struct option *options,
                                size_t count, const struct option *builtin, size_t builtin_count);

void options_print_version(FILE *out, const struct program *program);

/* The name as people type it: '_' becomes '-'. */
void options_dashed(const char *name, char *out, size_t bytes);

/* TOMBOLA_LISTEN for "listen". */
void options_environment_name(const char *name, char *out, size_t bytes);

/* "from 1 to 100", "from 0 to 2^63-1", or "" if the option has no bounds. */
void options_describe_bounds(const struct option *option, char *out, size_t bytes);

#endif
