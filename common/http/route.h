/* SPDX-License-Identifier: MIT */
/*
 * A path that a server answers, and its handlers. The table comes from the application.
 */
#ifndef COMMON_HTTP_ROUTE_H
#define COMMON_HTTP_ROUTE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

enum method {
    METHOD_GET = 1,
    METHOD_HEAD = 2,
    METHOD_POST = 4,
    METHOD_DELETE = 8,
    METHOD_OPTIONS = 16,
    METHOD_OTHER = 32
};

struct request;
struct service; /* the application's: what it serves */

/* Answers a complete request, or suspends it, on the request's HTTP thread; must not block for
 * long. Returns libmicrohttpd's result; MHD_NO closes the connection. */
typedef enum MHD_Result (*route_handler)(struct request *request, struct service *service);

struct route {
    const char *path;  /* a segment "*" is a name: request->name */
    int metrics;       /* index of its counters, below METRICS_OTHER */
    bool always;       /* answers even before there is a service; `service` may be NULL */
    bool open;         /* needs no token */
    bool no_store;     /* its responses carry Cache-Control: no-store */
    bool scoped;       /* its GET calls request_may() itself; otherwise that needs SCOPE_READ */
    int changes;       /* POST and DELETE need one of these scopes, for the name in the path */
    route_handler get; /* and HEAD */
    route_handler post;
    route_handler remove; /* DELETE */
};

struct route_table {
    const struct route *routes; /* [count] */
    size_t count;
};

/* The route of a decoded path, or NULL; *ret_name: the segment that matches "*", cut out of
 * `path`. */
const struct route *route_find(const struct route_table *table, char *path, const char **ret_name);

/* A path's methods for an Allow header; NULL: those of the whole server ("*"). */
#define ROUTE_ALLOW_BYTES 64
void route_allow(const struct route *route, char out[ROUTE_ALLOW_BYTES]);
/* NULL: the path does not support the method. */
route_handler route_handler_of(const struct route *route, enum method method);

#endif
