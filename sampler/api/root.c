/* SPDX-License-Identifier: MIT */
/* GET / for clients that do not accept HTML: a list of the paths. */
#include "common/http/dispatch.h"
#include "common/http/response.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"

static const char text[] =
    "Tombola sampler\n\n"
    "GET /batch?size=100          the next batch of ids and labels\n"
    "    &worker=W&seq=N          leased to W until it acks it: &ack=N, or POST /ack\n"
    "    &index=K                 batch number K; nothing moves\n"
    "    &format=json|csv|binary  &sort=1  &weights=1  &stream=default\n"
    "POST /ack /extend /release   acknowledge, extend, release leases\n"
    "GET /streams /streams/NAME   list streams, show one; POST /streams makes one\n"
    "GET /where?id=X              look up a unit\n"
    "GET /labels /frames          labels and how many are drawn; the frames\n"
    "GET /healthz /readyz /metrics /openapi.json\n";

/* Browsers get a page at the same path. */
static const struct response_header vary = {MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT};

/* The page is public, so the route requires no token; this text does. */
enum MHD_Result route_root(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    (void)service;
    if (!dispatch_lets_in(request, SCOPE_READ, &refusal))
        return refusal;
    enum error error = handler_refuse_query(request);
    if (error)
        return response_error(request, error);
    return response_static(request, "text/plain; charset=utf-8", text, sizeof(text) - 1, &vary);
}
