/* SPDX-License-Identifier: MIT */
/* The table of paths, and the sampler's callbacks for the server. */
#include "sampler/api/routes.h"

#include "sampler/api/api_request.h"
#include "sampler/api/api_thread.h"
#include "sampler/api/audit.h"
#include "sampler/stream/stream.h"

static const struct route routes[] = {
    {.path = "/batch", .metrics = PATH_BATCH, .no_store = true, .scoped = true, .get = route_batch},
    {.path = "/ack", .metrics = PATH_ACK, .changes = SCOPE_DRAW, .post = route_ack},
    {.path = "/extend", .metrics = PATH_EXTEND, .changes = SCOPE_DRAW, .post = route_extend},
    {.path = "/release", .metrics = PATH_RELEASE, .changes = SCOPE_DRAW, .post = route_release},
    {.path = "/", .metrics = PATH_ROOT, .always = true, .open = true, .get = route_page},
    {.path = "/page.css",
     .metrics = PATH_ROOT,
     .always = true,
     .open = true,
     .get = route_page_style},
    {.path = "/page.js",
     .metrics = PATH_ROOT,
     .always = true,
     .open = true,
     .get = route_page_script},
    {.path = "/live.json",
     .metrics = PATH_LIVE,
     .no_store = true,
     .always = true,
     .get = route_live},
    {.path = "/labels", .metrics = PATH_LABELS, .no_store = true, .get = route_labels},
    {.path = "/where", .metrics = PATH_WHERE, .no_store = true, .get = route_where},
    {.path = "/frames", .metrics = PATH_FRAMES, .no_store = true, .get = route_frames},
    {.path = "/streams",
     .metrics = PATH_STREAMS,
     .no_store = true,
     .get = route_streams,
     .changes = SCOPE_ADMIN,
     .post = route_create},
    {.path = "/streams/*",
     .metrics = PATH_STREAM,
     .no_store = true,
     .get = route_stream,
     .changes = SCOPE_ADMIN,
     .remove = route_stream_delete},
    {.path = "/streams/*/readers",
     .metrics = PATH_STREAM,
     .no_store = true,
     .get = route_stream_readers},
    {.path = "/streams/*/pause",
     .metrics = PATH_STREAM,
     .changes = SCOPE_ADMIN,
     .post = route_stream_pause},
    {.path = "/streams/*/resume",
     .metrics = PATH_STREAM,
     .changes = SCOPE_ADMIN,
     .post = route_stream_resume},
    {.path = "/streams/*/seek",
     .metrics = PATH_STREAM,
     .changes = SCOPE_ADMIN,
     .post = route_stream_seek},
    {.path = "/streams/*/checkpoint",
     .metrics = PATH_STREAM,
     .changes = SCOPE_ADMIN,
     .post = route_stream_checkpoint},
    {.path = "/streams/*/restore",
     .metrics = PATH_STREAM,
     .changes = SCOPE_ADMIN,
     .post = route_stream_restore},
    {.path = "/healthz",
     .metrics = PATH_HEALTHZ,
     .no_store = true,
     .always = true,
     .open = true,
     .get = route_healthz},
    {.path = "/readyz",
     .metrics = PATH_READYZ,
     .no_store = true,
     .always = true,
     .open = true,
     .get = route_readyz},
    {.path = "/metrics",
     .metrics = PATH_METRICS,
     .no_store = true,
     .always = true,
     .get = route_metrics},
    {.path = "/openapi.json", .metrics = PATH_OPENAPI, .get = route_openapi},
};

static void tick(int64_t now_ms)
{
    stream_look_at_clock();
    audit_tick(now_ms);
}

const struct application sampler_application = {
    .routes = {routes, sizeof(routes) / sizeof(routes[0])},
    .thread_bytes = sizeof(struct api_thread),
    .thread_release = api_thread_release,
    .request_bytes = sizeof(struct api_request),
    .request_cleared_bytes = API_REQUEST_CLEARED_BYTES,
    .request_release = api_request_release,
    .tick = tick,
    .starting_detail = "the server is starting: its frame is not there yet",
    .paths_detail = "GET /openapi.json says what there is",
};

static const struct token_scope scopes[] = {
    {"read", SCOPE_READ}, {"draw", SCOPE_DRAW}, {"admin", SCOPE_ADMIN}};

const struct token_grammar sampler_tokens = {
    .scopes = scopes,
    .scope_count = sizeof(scopes) / sizeof(scopes[0]),
    .noun = "stream",
    .nouns = "streams",
};
