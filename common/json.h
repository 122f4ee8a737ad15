/*
 * cJSON with limits and exact integers. json_parse() refuses whatever RFC 8259 does not allow,
 * trailing bytes, invalid UTF-8, NUL, a key twice in one object and a depth over 64; the message
 * names line and column. cJSON keeps numbers as double: json_get_integer() therefore accepts only
 * integers of at most 2^53 in magnitude and says so; 64-bit ids travel in the binary batch format.
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

/* A member of `object`; absent or of another type: ERROR_INPUT naming `what` and the key.
 * Strings are borrowed from the tree. */
enum error json_get_integer(const cJSON *object, const char *key, const char *what,
                            int64_t *ret_value) MUST_CHECK;
enum error json_get_real(const cJSON *object, const char *key, const char *what,
                         double *ret_value) MUST_CHECK;
enum error json_get_text(const cJSON *object, const char *key, const char *what,
                         const char **ret_value) MUST_CHECK;
enum error json_get_array(const cJSON *object, const char *key, const char *what,
                          const cJSON **ret_value) MUST_CHECK;

/* Appends `text` as a JSON string with quotes; control characters escaped. */
enum error json_add_string(struct buffer *buffer, const char *text) MUST_CHECK;

#endif
