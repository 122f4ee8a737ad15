#include "sampler/http/audit.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log_limit.h"
#include "sampler/api/routes.h"

#define PEER_BYTES 80
#define RELEASES_A_MINUTE 300

static struct log_limit strangers = LOG_LIMIT_INIT(1);
static struct log_limit trespassers = LOG_LIMIT_INIT(1);
static struct log_limit releases = LOG_LIMIT_INIT(RELEASES_A_MINUTE);

static int64_t now_ms(void)
{
    return clock_now_ns() / 1000000;
}

/* "192.0.2.7:4711" or "[2001:db8::7]:4711"; "": not known. */
static void write_peer(const struct request *request, char out[PEER_BYTES])
{
    char host[64];
    char port[16];
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    out[0] = '\0';
    if (!address)
        return;
    bool six = address->sa_family == AF_INET6;
    socklen_t length = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, PEER_BYTES, six ? "[%s]:%s" : "%s:%s", host, port);
}

void audit_expect(struct request *request, const char *what, struct log_field detail)
{
    const char *name = request->token ? bearer_token_name(request->token) : "";
    request->change = what;
    request->change_detail = detail;
    snprintf(request->changer, sizeof(request->changer), "%s", name);
}

void audit_done(struct request *request)
{
    char peer[PEER_BYTES];
    struct stream_status status;
    bool by_worker = request->route && request->route->metrics == PATH_RELEASE;
    if (!request->change || !request->stream)
        return;
    if (by_worker && !log_limit_pass(&releases, now_ms()))
        return;
    write_peer(request, peer);
    stream_status(request->stream, &status);
    log_event(LOG_INFO, request->change,
              log_text("stream", stream_definition(request->stream)->name),
              log_number("generation", status.generation), log_number("position", status.position),
              log_text("token", request->changer[0] ? request->changer : NULL),
              log_text("peer", peer), request->change_detail);
}

void audit_refused(struct request *request, int status, const char *reason)
{
    char peer[PEER_BYTES];
    struct log_limit *limit = status == MHD_HTTP_UNAUTHORIZED ? &strangers : &trespassers;
    if (!log_limit_pass(limit, now_ms()))
        return;
    write_peer(request, peer);
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

void audit_tick(int64_t at_ms)
{
    tell_refused(&strangers, at_ms, MHD_HTTP_UNAUTHORIZED);
    tell_refused(&trespassers, at_ms, MHD_HTTP_FORBIDDEN);
    int64_t held = log_limit_take(&releases, at_ms);
    if (held > 0)
        log_event(LOG_INFO, "more leases were released", log_number("requests", held),
                  log_number("seconds", LOG_LIMIT_SECONDS));
}
