/* SPDX-License-Identifier: MIT */
/* /healthz, /readyz and /frames. */
#include <inttypes.h>

#include "common/http/response.h"
#include "common/http/server_state.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 30)

static enum MHD_Result respond_ok(struct request *request)
{
    static const char ok[] = "ok\n";
    enum error error = handler_refuse_query(request);
    if (error)
        return response_error(request, error);
    return response_static(request, "text/plain; charset=utf-8", ok, sizeof(ok) - 1, NULL);
}

enum MHD_Result route_healthz(struct request *request, struct service *service)
{
    (void)service;
    return respond_ok(request);
}

enum MHD_Result route_readyz(struct request *request, struct service *service)
{
    enum server_phase phase = server_phase(request->thread->server);
    if (phase != SERVER_READY)
        return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                phase == SERVER_STARTING ? "the server is starting"
                                                         : "the server is stopping");
    if (streams_failing(service->streams)) {
        (void)streams_failure(service->streams);
        return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, error_message());
    }
    return respond_ok(request);
}

/* ---- /frames ------------------------------------------------------------ */

static void add_frame(struct buffer *body, const struct named_frame *named)
{
    buffer_print(body,
                 "{\"name\":\"%s\",\"units\":%" PRId64 ",\"labels\":%" PRIu32 ",\"digest\":\"%s\"}",
                 named->name, frame_units(named->frame), frame_labels(named->frame), named->digest);
}

enum MHD_Result route_frames(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = handler_refuse_query(request);
    buffer_add_text(&body, "{\"frames\":[");
    for (size_t i = 0; i < frame_set_count(service->frames); i++) {
        buffer_add_text(&body, i > 0 ? "," : "");
        add_frame(&body, frame_set_at(service->frames, i));
    }
    buffer_add_text(&body, "]}\n");
    return response_json(request, error ? error : body.error, MHD_HTTP_OK, &body, NULL);
}
