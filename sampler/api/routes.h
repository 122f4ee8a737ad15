/* SPDX-License-Identifier: MIT */
/*
 * The paths that the sampler answers, and its other callbacks for common/http.
 *
 * Scopes of tokens:
 *   read   every GET and HEAD but draws; not bound to streams
 *   draw   /batch, /ack, /extend and /release of the streams named
 *   admin  creates, changes and deletes the streams named
 */
#ifndef SAMPLER_API_ROUTES_H
#define SAMPLER_API_ROUTES_H

#include <microhttpd.h>

#include "common/http/metrics.h"
#include "common/http/request.h"
#include "common/http/server_state.h"
#include "sampler/service/service.h"

enum scope { SCOPE_DRAW = 2, SCOPE_ADMIN = 4 };

/* The paths that are counted separately. */
enum metrics_path {
    PATH_ROOT,
    PATH_BATCH,
    PATH_ACK,
    PATH_EXTEND,
    PATH_RELEASE,
    PATH_WHERE,
    PATH_LABELS,
    PATH_FRAMES,
    PATH_STREAMS,
    PATH_STREAM,
    PATH_HEALTHZ,
    PATH_READYZ,
    PATH_METRICS,
    PATH_OPENAPI,
    PATH_LIVE,
    PATH_OTHER = METRICS_OTHER /* unknown ones */
};

extern const struct application sampler_application;
extern const struct token_grammar sampler_tokens;
extern const struct metrics_words sampler_metrics; /* metrics_text.c */

/* sampler/api/batch.c */
enum MHD_Result route_batch(struct request *request, struct service *service);

/* sampler/api/root.c, sampler/api/page.c, sampler/api/live_json.c */
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

/* sampler/api/stream_readers.c */
enum MHD_Result route_stream_readers(struct request *request, struct service *service);

/* sampler/api/stream_create.c: POST /streams */
enum MHD_Result route_create(struct request *request, struct service *service);

/* sampler/api/metrics_text.c, sampler/api/openapi.c */
enum MHD_Result route_metrics(struct request *request, struct service *service);
enum MHD_Result route_openapi(struct request *request, struct service *service);

#endif
