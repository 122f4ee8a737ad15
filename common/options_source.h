/* SPDX-License-Identifier: MIT */
/*
 * Values of a config file or an environment variable, as the text that the command line would have
 * had. Private to options.c.
 */
#ifndef COMMON_OPTIONS_SOURCE_H
#define COMMON_OPTIONS_SOURCE_H

#include "common/error.h"
#include "common/json.h"
#include "common/option.h"

/* The value `item` of the config file `path`: an array gives a line for each of its texts when the
 * option may be repeated, an object its JSON when the option takes JSON. */
enum error options_text_of_json(const struct option *option, const cJSON *item, const char *path,
                                const char **ret_text) MUST_CHECK;

/* The value of an environment variable; without blank lines when the option may be repeated. */
enum error options_text_of_variable(const struct option *option, const char *value,
                                    const char **ret_text) MUST_CHECK;

#endif
