/* SPDX-License-Identifier: MIT */
/* Parses one option's value. Private to options.c. */
#ifndef COMMON_COMMAND_OPTIONS_VALUE_H
#define COMMON_COMMAND_OPTIONS_VALUE_H

#include "common/command/option.h"
#include "common/error.h"

/* Sets *option->target from `text` (borrowed by text targets). `source` names the origin in
 * messages: "--size", "environment variable TOMBOLA_SIZE". ERROR_USAGE says what is allowed. */
enum error options_set_value(const struct option *option, const char *text,
                             const char *source) MUST_CHECK;

#endif
