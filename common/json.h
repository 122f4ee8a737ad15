/* SPDX-License-Identifier: MIT */
/*
 * cJSON with limits and exact integers. json_parse() refuses whatever RFC 8259 does not allow, and
 * trailing bytes, invalid UTF-8, NUL, duplicate keys in an object, nesting deeper than 64 and
 * numbers beyond a double's range; the message names line and column. cJSON keeps numbers as
 * double; those of 16 or more digits also keep their text (item->valuestring), so that 64-bit
 * integers are exact.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

/* `what` names the text in messages ("config file x.json"). cJSON_Delete() the result. */
enum error json_parse(const char *text, size_t length, const char *what,
                      cJSON **ret_json) MUST_CHECK;

/* Is it an integer within 64 bits? 1.0 and 1e3 are. Nothing is rounded. */
bool json_integer(const cJSON *item, int64_t *ret_value);

/* A number (almost) as written, at most 40 characters, for messages; returns `out`. */
#define JSON_NUMBER_BYTES 41
const char *json_number(const cJSON *item, char out[JSON_NUMBER_BYTES]);
/* "a text", "a number", "true or false", "an array", "an object", "null": for messages. */
const char *json_kind(const cJSON *item);

/* Gets a member of `object`; absent or of another type: ERROR_INPUT naming `what` and the key.
 * Strings are borrowed from the tree. */
enum error json_get_integer(const cJSON *object, const char *key, const char *what,
                            int64_t *ret_value) MUST_CHECK;
enum error json_get_text(const cJSON *object, const char *key, const char *what,
                         const char **ret_value) MUST_CHECK;
enum error json_get_array(const cJSON *object, const char *key, const char *what,
                          const cJSON **ret_value) MUST_CHECK;

/* Appends `text` as a quoted JSON string, with control characters escaped. If it is not UTF-8, each
 * byte beyond ASCII becomes U+FFFD. */
enum error json_add_string(struct buffer *buffer, const char *text);
/* Appends `["a","b"]`. */
enum error json_add_strings(struct buffer *buffer, const char *const texts[], size_t count);

static inline const char *json_truth(bool value)
{
    return value ? "true" : "false";
}

#endif
