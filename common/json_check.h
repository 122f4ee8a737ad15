/* SPDX-License-Identifier: MIT */
/* RFC 8259 to the letter, before cJSON sees the text: cJSON accepts more. Private to json.c. */
#ifndef COMMON_JSON_CHECK_H
#define COMMON_JSON_CHECK_H

#include <stddef.h>

#include "common/error.h"

#define JSON_DEPTH_LIMIT 64

/* Exactly one value, with nothing but space around it, at most JSON_DEPTH_LIMIT deep; strings are
 * UTF-8 without NUL (also none written as \u0000) and without half surrogate pairs; numbers are
 * such as a double holds. ERROR_INPUT names `what`, line and column. */
enum error json_check(const char *text, size_t length, const char *what) MUST_CHECK;

#endif
