/* SPDX-License-Identifier: MIT */
/*
 * Converts values of a config file or an environment variable to the text that the command line
 * would have. Private to options.c.
 */
#ifndef COMMON_COMMAND_OPTIONS_SOURCE_H
#define COMMON_COMMAND_OPTIONS_SOURCE_H

#include "common/command/option.h"
#include "common/error.h"
#include "common/json.h"

/* The value `item` of the config file `path`: an array becomes one line per text if the option may
 * be repeated, an object its JSON if the option takes JSON. */
enum error options_text_of_json(const struct option *option, const cJSON *item, const char *path,
                                const char **ret_text) MUST_CHECK;

/* The value of an environment variable; blank lines are removed if the option may be repeated. */
enum error options_text_of_variable(const struct option *option, const char *value,
                                    const char **ret_text) MUST_CHECK;

#endif
