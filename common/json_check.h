/* SPDX-License-Identifier: MIT */
/* Strict RFC 8259 check before cJSON, which accepts more. Private to json.c. */
#ifndef COMMON_JSON_CHECK_H
#define COMMON_JSON_CHECK_H

#include <stddef.h>

#include "common/error.h"

#define JSON_DEPTH_LIMIT 64

/* Accepts exactly one value, surrounded by whitespace only, at most JSON_DEPTH_LIMIT deep; strings
 * are UTF-8 without NUL (nor \u0000) and without unpaired surrogates; numbers are within a double's
 * range. ERROR_INPUT names `what`, line and column. */
enum error json_check(const char *text, size_t length, const char *what) MUST_CHECK;

#endif
