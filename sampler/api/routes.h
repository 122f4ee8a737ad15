/*
 * The paths that the server knows, and the handlers of each. A handler answers a complete request
 * (or suspends it) from the HTTP thread that the request belongs to; it must not block for long.
 */
#ifndef SAMPLER_API_ROUTES_H
#define SAMPLER_API_ROUTES_H

#include <microhttpd.h>
#include <stdbool.h>

#include "sampler/http/request.h"
#include "sampler/service/service.h"
#include "sampler/stream/metrics.h"

/* Answers a request. Returns what MHD wants; MHD_NO closes the connection. */
typedef enum MHD_Result (*route_handler)(struct request *request, struct service *service);

struct route {
    const char *path; /* a segment "*" is a stream's name: request->name */
    enum metrics_path metrics;
    bool always;       /* answers while there is no service yet; `service` may be NULL */
    bool open;         /* asks for no token */
    bool no_store;     /* its answers carry Cache-Control: no-store */
    bool scoped;       /* its handlers ask request_may() themselves; else GET needs SCOPE_READ */
    route_handler get; /* and HEAD */
    route_handler post;
    route_handler remove; /* DELETE */
};

/* The route of a decoded path, or NULL; *ret_name: the stream's name in it, cut out of `path`. */
const struct route *route_find(char *path, const char **ret_name);
const struct route *route_batch_route(void);

/* The methods of a path as an Allow header wants them; NULL: of the whole server ("*"). */
#define ROUTE_ALLOW_BYTES 64
void route_allow(const struct route *route, char out[ROUTE_ALLOW_BYTES]);
route_handler route_handler_of(const struct route *route, enum method method);

/* sampler/api/batch.c */
enum MHD_Result route_batch(struct request *request, struct service *service);

/* sampler/api/root.c, sampler/api/page.c, sampler/api/live_data.c */
enum MHD_Result route_root(struct request *request, struct service *service);
enum MHD_Result route_page(struct request *request, struct service *service);
enum MHD_Result route_page_style(struct request *request, struct service *service);
enum MHD_Result route_page_script(struct request *request, struct service *service);
enum MHD_Result route_live(struct request *request, struct service *service);

/* sampler/api/health.c */
enum MHD_Result route_healthz(struct request *request, struct service *service);
enum MHD_Result route_readyz(struct request *request, struct service *service);
enum MHD_Result route_frames(struct request *request, struct service *service);
enum MHD_Result route_labels(struct request *request, struct service *service);

/* sampler/api/where.c */
enum MHD_Result route_where(struct request *request, struct service *service);

/* sampler/api/leases.c: POST */
enum MHD_Result route_ack(struct request *request, struct service *service);
enum MHD_Result route_extend(struct request *request, struct service *service);
enum MHD_Result route_release(struct request *request, struct service *service);

/* sampler/api/stream_changes.c */
enum MHD_Result route_streams(struct request *request, struct service *service);
enum MHD_Result route_stream(struct request *request, struct service *service);
enum MHD_Result route_stream_delete(struct request *request, struct service *service);
enum MHD_Result route_stream_pause(struct request *request, struct service *service);
enum MHD_Result route_stream_resume(struct request *request, struct service *service);
enum MHD_Result route_stream_seek(struct request *request, struct service *service);
enum MHD_Result route_stream_checkpoint(struct request *request, struct service *service);
enum MHD_Result route_stream_restore(struct request *request, struct service *service);

/* sampler/api/stream_create.c: POST /streams */
enum MHD_Result route_create(struct request *request, struct service *service);

/* sampler/api/metrics_text.c, sampler/api/openapi.c */
enum MHD_Result route_metrics(struct request *request, struct service *service);
enum MHD_Result route_openapi(struct request *request, struct service *service);

#endif
