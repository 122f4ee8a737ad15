/* SPDX-License-Identifier: MIT */
#include "common/http/refusals.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"

static struct log_limit strangers = LOG_LIMIT_INIT(1);
static struct log_limit trespassers = LOG_LIMIT_INIT(1);

void refusals_log(struct request *request, int status, const char *reason)
{
    char peer[REQUEST_PEER_BYTES];
    struct log_limit *limit = status == MHD_HTTP_UNAUTHORIZED ? &strangers : &trespassers;
    if (!log_limit_pass(limit, clock_now_ns() / 1000000))
        return;
    request_peer(request, peer);
    log_event(LOG_WARNING, "request refused", log_number("status", status),
              log_text("reason", reason),
              log_text("path", request->route ? request->route->path : NULL),
              log_text("token", request->token ? bearer_token_name(request->token) : NULL),
              log_text("peer", peer));
}

static void tell_refused(struct log_limit *limit, int64_t at_ms, int status)
{
    int64_t held = log_limit_take(limit, at_ms);
    if (held > 0)
        log_event(LOG_WARNING, "more requests were refused", log_number("status", status),
                  log_number("count", held), log_number("seconds", LOG_LIMIT_SECONDS));
}

void refusals_tick(int64_t at_ms)
{
    tell_refused(&strangers, at_ms, MHD_HTTP_UNAUTHORIZED);
    tell_refused(&trespassers, at_ms, MHD_HTTP_FORBIDDEN);
}
