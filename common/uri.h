/* SPDX-License-Identifier: MIT */
/*
 * `scheme:path?key=value&key=value`, percent-decoded: the store URIs and the HTTP query strings.
 *
 * Every key once; a key given twice, a broken %-escape, a NUL or text that is not UTF-8 is an
 * error. `+` stays `+`. The reader asks for the keys it knows (each question marks the key as
 * known) and then calls uri_query_finish(), which fails on a key that nobody asked for.
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
    char *value; /* owned, decoded; "" when there was no '=' */
    bool known;  /* somebody asked for it */
};

struct uri_query {
    struct uri_parameter parameters[URI_PARAMETERS_LIMIT];
    size_t count;
    const char *asked[URI_PARAMETERS_LIMIT]; /* keys that uri_query_get() was asked for: borrowed */
    size_t asked_count;
};

/* Parses `key=value&...` (without '?'; may be empty or NULL). Fails with ERROR_USAGE. */
enum error uri_query_init(struct uri_query *query, const char *text) MUST_CHECK;
void uri_query_release(struct uri_query *query);
/* One more, as it stands. */
enum error uri_query_add(struct uri_query *query, const char *key, const char *value) MUST_CHECK;

/* The value of `key`, or NULL; borrowed until uri_query_release(). Marks the key as known; `key`
 * itself is kept for the message of uri_query_finish() and must live until then (a literal). */
const char *uri_query_get(struct uri_query *query, const char *key);

/* *ret_value: the integer of `key` within [minimum, maximum], or `fallback` when it is absent. */
enum error uri_query_integer(struct uri_query *query, const char *key, int64_t minimum,
                             int64_t maximum, int64_t fallback, int64_t *ret_value) MUST_CHECK;
enum error uri_query_boolean(struct uri_query *query, const char *key, bool fallback,
                             bool *ret_value) MUST_CHECK;

/* ERROR_USAGE naming the first parameter that nobody asked for, and the ones that exist. */
enum error uri_query_finish(const struct uri_query *query) MUST_CHECK;

struct feature_recipe;

struct uri {
    char *scheme; /* owned; "" for a bare path */
    char *path;   /* owned, decoded, but of postgresql: there the text from "//" up to '?' as it
                   * stands */
    struct uri_query query;
    /* Borrowed; never from the text: the features that who opens the store wants, of all that the
     * text asks for (column_role.h). A count of 0: all. */
    const char *const *columns;
    size_t column_count;
    /* The same: what its missing values and texts become (loader/store/feature_recipe.h). */
    struct feature_recipe *recipe;
};

/* A bare path (no known `scheme:` in front) gets scheme "" and keeps its '%' and '?' parameters:
 * only what stands behind the last '?' and contains '=' is taken as a query. */
enum error uri_init(struct uri *uri, const char *text) MUST_CHECK;
void uri_release(struct uri *uri);

#endif
