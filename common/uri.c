/* SPDX-License-Identifier: MIT */
#include "common/uri.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

int uri_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* A decoded copy of text[0..length); free() it. */
static enum error decode(const char *text, size_t length, char **ret_decoded)
{
    char shown[TEXT_QUOTE_BYTES];
    char *decoded = malloc(length + 1);
    if (!decoded)
        return error_set_memory(length + 1, "a URI");
    size_t written = 0;
    for (size_t at = 0; at < length; at++) {
        if (text[at] != '%') {
            decoded[written++] = text[at];
            continue;
        }
        int high = at + 1 < length ? uri_hex_digit(text[at + 1]) : -1;
        int low = at + 2 < length ? uri_hex_digit(text[at + 2]) : -1;
        if (high < 0 || low < 0) {
            free(decoded);
            return error_set(ERROR_USAGE,
                             "%s: '%%' must be followed by two hex digits (%%25 is '%%')",
                             text_quote(shown, sizeof(shown), text, length));
        }
        decoded[written++] = (char)(high * 16 + low);
        at += 2;
    }
    decoded[written] = '\0';
    if (!text_is_utf8(decoded, written)) {
        free(decoded);
        return error_set(ERROR_USAGE, "%s is not UTF-8 text without NUL",
                         text_quote(shown, sizeof(shown), text, length));
    }
    *ret_decoded = decoded;
    return OK;
}

/* Takes key and value over, also on failure. */
static enum error add_owned(struct uri_query *query, char *key, char *value)
{
    char shown[TEXT_QUOTE_BYTES];
    enum error error = OK;
    text_quote(shown, sizeof(shown), key, strlen(key));
    for (size_t i = 0; i < query->count && !error; i++) {
        if (strcmp(query->parameters[i].key, key) == 0)
            error = error_set(ERROR_USAGE, "parameter %s is given twice", shown);
    }
    if (!error && !key[0])
        error = error_set(ERROR_USAGE, "a parameter without a name; write key=value&key=value");
    if (!error && query->count == URI_PARAMETERS_LIMIT)
        error = error_set(ERROR_USAGE, "more than %d parameters", URI_PARAMETERS_LIMIT);
    if (error) {
        free(key);
        free(value);
        return error;
    }
    query->parameters[query->count++] = (struct uri_parameter){.key = key, .value = value};
    return OK;
}

static enum error add_encoded(struct uri_query *query, const char *text, size_t length)
{
    char *key = NULL;
    char *value = NULL;
    const char *equals = memchr(text, '=', length);
    size_t key_length = equals ? (size_t)(equals - text) : length;
    enum error error = decode(text, key_length, &key);
    if (error)
        return error;
    error = equals ? decode(equals + 1, length - key_length - 1, &value) : decode("", 0, &value);
    if (error) {
        char shown[TEXT_QUOTE_BYTES];
        text_quote(shown, sizeof(shown), key, strlen(key));
        if (error == ERROR_USAGE && strstr(key, "password")) /* it is not shown */
            error = error_set(error, "it must be UTF-8, with two hex digits behind each '%%' (%%25 "
                                     "is '%%')");
        free(key);
        return error_prefix(error, "parameter %s: ", shown);
    }
    return add_owned(query, key, value);
}

enum error uri_query_add(struct uri_query *query, const char *key, const char *value)
{
    char *own_key = strdup(key);
    char *own_value = strdup(value);
    if (own_key && own_value)
        return add_owned(query, own_key, own_value);
    free(own_key);
    free(own_value);
    return error_set_memory(strlen(key) + strlen(value), "a parameter");
}

enum error uri_query_init(struct uri_query *query, const char *text)
{
    query->count = 0;
    query->asked_count = 0;
    enum error error = OK;
    const char *next = text && text[0] ? text : NULL;
    while (next && !error) {
        size_t length = strcspn(next, "&");
        error = add_encoded(query, next, length);
        next = next[length] ? next + length + 1 : NULL;
    }
    if (error)
        uri_query_release(query);
    return error;
}

void uri_query_release(struct uri_query *query)
{
    for (size_t i = 0; i < query->count; i++) {
        free(query->parameters[i].key);
        free(query->parameters[i].value);
    }
    query->count = 0;
    query->asked_count = 0;
}

static void remember_asked(struct uri_query *query, const char *key)
{
    for (size_t i = 0; i < query->asked_count; i++) {
        if (strcmp(query->asked[i], key) == 0)
            return;
    }
    if (query->asked_count < URI_PARAMETERS_LIMIT)
        query->asked[query->asked_count++] = key;
}

const char *uri_query_get(struct uri_query *query, const char *key)
{
    remember_asked(query, key);
    for (size_t i = 0; i < query->count; i++) {
        if (strcmp(query->parameters[i].key, key) == 0) {
            query->parameters[i].known = true;
            return query->parameters[i].value;
        }
    }
    return NULL;
}

enum error uri_query_integer(struct uri_query *query, const char *key, int64_t minimum,
                             int64_t maximum, int64_t fallback, int64_t *ret_value)
{
    const char *value = uri_query_get(query, key);
    if (!value) {
        *ret_value = fallback;
        return OK;
    }
    if (text_parse_integer(value, strlen(value), minimum, maximum, ret_value))
        return OK;
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_USAGE, "%s is %s, must be an integer from %" PRId64 " to %" PRId64, key,
                     text_quote(shown, sizeof(shown), value, strlen(value)), minimum, maximum);
}

enum error uri_query_boolean(struct uri_query *query, const char *key, bool fallback,
                             bool *ret_value)
{
    const char *value = uri_query_get(query, key);
    if (!value) {
        *ret_value = fallback;
        return OK;
    }
    if (text_parse_boolean(value, strlen(value), ret_value))
        return OK;
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_USAGE, "%s is %s, must be yes or no (also true, false, on, off, 1, 0)",
                     key, text_quote(shown, sizeof(shown), value, strlen(value)));
}

static enum error refuse_unknown(const struct uri_query *query, const char *key)
{
    char shown[TEXT_QUOTE_BYTES];
    char names[512] = "";
    size_t length = 0;
    for (size_t i = 0; i < query->asked_count && length < sizeof(names) - 1; i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
                                   query->asked[i]);
    text_quote(shown, sizeof(shown), key, strlen(key));
    if (query->asked_count == 0)
        return error_set(ERROR_USAGE, "unknown parameter %s; none is allowed here", shown);
    const char *nearest = text_nearest(key, query->asked, query->asked_count);
    if (nearest)
        return error_set(ERROR_USAGE, "unknown parameter %s (did you mean %s?); allowed are %s",
                         shown, nearest, names);
    return error_set(ERROR_USAGE, "unknown parameter %s; allowed are %s", shown, names);
}

enum error uri_query_finish(const struct uri_query *query)
{
    for (size_t i = 0; i < query->count; i++) {
        if (!query->parameters[i].known)
            return refuse_unknown(query, query->parameters[i].key);
    }
    return OK;
}

/* The length of a known "scheme:" without the colon, or 0. */
static size_t scheme_length(const char *text)
{
    static const char *const schemes[] = {"csv",    "idx",   "parquet",    "rows",
                                          "sqlite", "range", "postgresql", "postgres"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i]);
        if (strncmp(text, schemes[i], length) == 0 && text[length] == ':')
            return length;
    }
    return 0;
}

/* Where the query begins ('?'), or the end. */
static const char *find_query(const char *path, bool bare)
{
    const char *mark = bare ? strrchr(path, '?') : strchr(path, '?');
    if (mark && (!bare || strchr(mark, '=')))
        return mark;
    return path + strlen(path);
}

static enum error copy_path(struct uri *uri, const char *path, size_t length, bool as_it_stands)
{
    if (!as_it_stands)
        return decode(path, length, &uri->path);
    uri->path = strndup(path, length);
    return uri->path ? OK : error_set_memory(length, "a URI");
}

enum error uri_init(struct uri *uri, const char *text)
{
    *uri = (struct uri){.scheme = NULL};
    size_t length = scheme_length(text);
    const char *path = length ? text + length + 1 : text;
    const char *mark = find_query(path, length == 0);
    enum error error = OK;
    bool is_short = length == strlen("postgres") && strncmp(text, "postgres", length) == 0;
    uri->scheme = is_short ? strdup("postgresql") : strndup(text, length);
    if (!uri->scheme)
        error = error_set_memory(length, "a URI");
    bool as_it_stands = length == 0 || strcmp(uri->scheme ? uri->scheme : "", "postgresql") == 0;
    if (!error)
        error = copy_path(uri, path, (size_t)(mark - path), as_it_stands);
    if (!error && !uri->path[0])
        error =
            error_set(ERROR_USAGE,
                      "\"%s\" names nothing; use csv:PATH, parquet:PATH, sqlite:PATH, rows:PATH, "
                      "idx:PATH, range:N or postgresql://HOST/DATABASE",
                      text);
    if (!error)
        error = uri_query_init(&uri->query, *mark ? mark + 1 : NULL);
    if (error) {
        uri_release(uri);
        return error_prefix(error, "URI: ");
    }
    return OK;
}

void uri_release(struct uri *uri)
{
    free(uri->scheme);
    free(uri->path);
    uri->scheme = NULL;
    uri->path = NULL;
    uri_query_release(&uri->query);
}
