/* SPDX-License-Identifier: MIT */
#include "sampler/api/audit.h"
#include "sampler/api/api_request.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "sampler/api/routes.h"

#define RELEASES_A_MINUTE 300

static struct log_limit releases = LOG_LIMIT_INIT(RELEASES_A_MINUTE);

void audit_expect(struct request *request, const char *what, struct log_field detail)
{
    const char *name = request->token ? bearer_token_name(request->token) : "";
    request->api->change = what;
    request->api->change_detail = detail;
    snprintf(request->api->changer, sizeof(request->api->changer), "%s", name);
}

void audit_done(struct request *request)
{
    char peer[REQUEST_PEER_BYTES];
    struct stream_status status;
    bool by_worker = request->route && request->route->metrics == PATH_RELEASE;
    if (!request->api->change || !request->api->stream)
        return;
    if (by_worker && !log_limit_pass(&releases, clock_now_ns() / 1000000))
        return;
    request_peer(request, peer);
    stream_status(request->api->stream, &status);
    log_event(LOG_INFO, request->api->change,
              log_text("stream", stream_definition(request->api->stream)->name),
              log_number("generation", status.generation), log_number("position", status.position),
              log_text("token", request->api->changer[0] ? request->api->changer : NULL),
              log_text("peer", peer), request->api->change_detail);
}

void audit_tick(int64_t at_ms)
{
    int64_t held = log_limit_take(&releases, at_ms);
    if (held > 0)
        log_event(LOG_INFO, "more leases were released", log_number("requests", held),
                  log_number("seconds", LOG_LIMIT_SECONDS));
}
