/*
 * The paths that the server knows, and the handler of each. A handler answers a complete request
 * (or suspends it) from the HTTP thread that the request belongs to; it must not block for long.
 */
#ifndef SAMPLER_ROUTES_H
#define SAMPLER_ROUTES_H

#include <microhttpd.h>
#include <stdbool.h>

#include "sampler/metrics.h"
#include "sampler/request.h"
#include "sampler/service.h"

struct route {
    const char *path; /* ends with '/': a name follows */
    enum metrics_path metrics;
    bool always;   /* answers while there is no service yet; `service` may be NULL */
    bool no_store; /* its answers carry Cache-Control: no-store */
    /* GET and HEAD. Returns what MHD wants; MHD_NO closes the connection. */
    enum MHD_Result (*get)(struct request *request, struct service *service);
};

/* What every route allows. */
#define ROUTE_ALLOW "GET, HEAD, OPTIONS"

/* The route of a decoded path, or NULL; *ret_name: what follows a path that ends with '/'. */
const struct route *route_find(const char *path, const char **ret_name);
const struct route *route_batch_route(void);

/* sampler/route_batch.c */
enum MHD_Result route_batch(struct request *request, struct service *service);

#endif
