/* SPDX-License-Identifier: MIT */
/*
 * `scheme:path?key=value&key=value`, percent-decoded: store URIs and HTTP query strings.
 *
 * A duplicate key, a broken %-escape, a NUL or text that is not UTF-8 is an error. `+` stays `+`.
 * The reader gets the keys it knows (which marks them as known) and then calls uri_query_finish(),
 * which fails on any other key.
 */
#ifndef COMMON_URI_H
#define COMMON_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define URI_PARAMETERS_LIMIT 64

struct uri_parameter {
    char *key;   /* owned, decoded */
    char *value; /* owned, decoded; "" if there was no '=' */
    bool known;  /* the reader asked for it */
};

struct uri_query {
    struct uri_parameter parameters[URI_PARAMETERS_LIMIT];
    size_t count;
    const char *asked[URI_PARAMETERS_LIMIT]; /* keys passed to uri_query_get(), borrowed */
    size_t asked_count;
};

/* Parses `key=value&...` (without '?'; may be empty or NULL). Fails with ERROR_USAGE. */
enum error uri_query_init(struct uri_query *query, const char *text) MUST_CHECK;
void uri_query_release(struct uri_query *query);
/* Adds one parameter, without decoding. */
enum error uri_query_add(struct uri_query *query, const char *key, const char *value) MUST_CHECK;

/* The value of `key`, or NULL; borrowed until uri_query_release(). Marks the key as known; `key`
 * itself is kept for the message of uri_query_finish() and must live until then (a literal). */
const char *uri_query_get(struct uri_query *query, const char *key);

/* *ret_value: the integer of `key` within [minimum, maximum], or `fallback` if absent. */
enum error uri_query_integer(struct uri_query *query, const char *key, int64_t minimum,
                             int64_t maximum, int64_t fallback, int64_t *ret_value) MUST_CHECK;
enum error uri_query_boolean(struct uri_query *query, const char *key, bool fallback,
                             bool *ret_value) MUST_CHECK;

/* ERROR_USAGE naming the first unknown parameter, and those that exist. */
enum error uri_query_finish(const struct uri_query *query) MUST_CHECK;

/* 0 to 15, or -1. */
int uri_hex_digit(char digit);

struct uri {
    char *scheme; /* owned; "" for a bare path; "postgresql" for postgres:, as in libpq */
    char *path;   /* owned, decoded, except for postgresql: the raw text from "//" up to '?' */
    struct uri_query query;
};

/* A bare path (no known `scheme:`) gets scheme "", and its '%' and '?' stay: only what follows the
 * last '?' and contains '=' is a query. */
enum error uri_init(struct uri *uri, const char *text) MUST_CHECK;
void uri_release(struct uri *uri);

#endif
