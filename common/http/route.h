/* SPDX-License-Identifier: MIT */
/*
 * A path that a server answers, and how. The table comes from the application.
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

/* Answers a complete request, or suspends it, from the HTTP thread that the request belongs to; it
 * must not block for long. Returns what MHD wants; MHD_NO closes the connection. */
typedef enum MHD_Result (*route_handler)(struct request *request, struct service *service);

struct route {
    const char *path;  /* a segment "*" is a name: request->name */
    int metrics;       /* what it is counted under, below METRICS_OTHER */
    bool always;       /* answers while there is no service yet; `service` may be NULL */
    bool open;         /* asks for no token */
    bool no_store;     /* its responses carry Cache-Control: no-store */
    bool scoped;       /* its GET asks request_may() itself; else that needs SCOPE_READ */
    int changes;       /* the scopes of which POST and DELETE need one, for the name in the path */
    route_handler get; /* and HEAD */
    route_handler post;
    route_handler remove; /* DELETE */
};

struct route_table {
    const struct route *routes; /* [count] */
    size_t count;
};

/* The route of a decoded path, or NULL; *ret_name: what stands for "*", cut out of `path`. */
const struct route *route_find(const struct route_table *table, char *path, const char **ret_name);

/* The methods of a path as an Allow header wants them; NULL: of the whole server ("*"). */
#define ROUTE_ALLOW_BYTES 64
void route_allow(const struct route *route, char out[ROUTE_ALLOW_BYTES]);
/* NULL: the path does not know the method. */
route_handler route_handler_of(const struct route *route, enum method method);

#endif
