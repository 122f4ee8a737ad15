/* SPDX-License-Identifier: MIT */
#include "common/http/route.h"

#include <stdio.h>
#include <string.h>

/* Does `path` match `pattern`? *ret_begin and *ret_end: where the name begins and ends. */
static bool matches(const char *pattern, const char *path, size_t *ret_begin, size_t *ret_end)
{
    const char *star = strchr(pattern, '*');
    size_t begin = star ? (size_t)(star - pattern) : 0;
    *ret_begin = *ret_end = 0;
    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, begin) != 0)
        return false;
    size_t length = strcspn(path + begin, "/");
    *ret_begin = begin;
    *ret_end = begin + length;
    return length > 0 && strcmp(star + 1, path + begin + length) == 0;
}

const struct route *route_find(const struct route_table *table, char *path, const char **ret_name)
{
    size_t begin;
    size_t end;
    for (size_t i = 0; i < table->count; i++) {
        if (!matches(table->routes[i].path, path, &begin, &end))
            continue;
        if (end > 0) {
            path[end] = '\0';
            *ret_name = path + begin;
        }
        return &table->routes[i];
    }
    return NULL;
}

void route_allow(const struct route *route, char out[ROUTE_ALLOW_BYTES])
{
    bool get = !route || route->get;
    bool post = !route || route->post;
    bool remove = !route || route->remove;
    snprintf(out, ROUTE_ALLOW_BYTES, "%s%s%sOPTIONS", get ? "GET, HEAD, " : "",
             post ? "POST, " : "", remove ? "DELETE, " : "");
}

route_handler route_handler_of(const struct route *route, enum method method)
{
    switch (method) {
    case METHOD_GET:
    case METHOD_HEAD:
        return route->get;
    case METHOD_POST:
        return route->post;
    case METHOD_DELETE:
        return route->remove;
    default:
        return NULL;
    }
}
