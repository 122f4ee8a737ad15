/* SPDX-License-Identifier: MIT */
/*
 * The JSON object in a request's body, read strictly: each field at most once, of the right type,
 * within its range, and no unknown fields. Messages name the field, its value, and what is allowed.
 * Integers are exact over all 64 bits.
 */
#ifndef SAMPLER_API_JSON_BODY_H
#define SAMPLER_API_JSON_BODY_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define BODY_FIELDS_LIMIT 32

struct body {
    cJSON *json;                          /* owned */
    const char *asked[BODY_FIELDS_LIMIT]; /* literals */
    size_t asked_count;
};

/* May a body of this Content-Type (NULL: none was sent) be read as JSON? `curl -d` sends
 * application/x-www-form-urlencoded. */
bool body_type_is_right(const char *content_type);

/* ERROR_INPUT: not JSON, not an object, or a duplicate key. An empty text is an object without
 * fields if `may_be_empty`, else an error. */
enum error body_open(const char *text, size_t length, bool may_be_empty,
                     struct body *ret_body) MUST_CHECK;
void body_close(struct body *body);

/* Reads a field, or returns the fallback if it is absent. Texts are borrowed until body_close(). */
enum error body_text(struct body *body, const char *field, const char *fallback,
                     const char **ret_text) MUST_CHECK;
enum error body_integer(struct body *body, const char *field, int64_t minimum, int64_t maximum,
                        int64_t fallback, int64_t *ret_value) MUST_CHECK;
enum error body_real(struct body *body, const char *field, double minimum, double maximum,
                     double fallback, double *ret_value) MUST_CHECK;
enum error body_boolean(struct body *body, const char *field, bool fallback,
                        bool *ret_value) MUST_CHECK;
/* A required array of integers; the caller frees *ret_list. */
enum error body_integers(struct body *body, const char *field, int64_t minimum, int64_t maximum,
                         int64_t **ret_list, size_t *ret_count) MUST_CHECK;
/* The field must be present: for fields without a fallback. */
enum error body_require(const struct body *body, const char *field) MUST_CHECK;

/* The fields read so far, "stream, worker": for messages. */
#define BODY_NAMES_BYTES 512
void body_list_known(const struct body *body, char ret_names[BODY_NAMES_BYTES]);
/* Removes the fields that were read: body->json keeps the rest. */
void body_drop_known(struct body *body);
/* ERROR_INPUT naming a field that was not read, and those that exist. */
enum error body_finish(const struct body *body) MUST_CHECK;

#endif
