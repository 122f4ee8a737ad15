/* GET /live.json: what the live page shows, asked for once a second by everybody who looks. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/json.h"
#include "common/uri.h"
#include "config.h"
#include "sampler/api/live_json.h"
#include "sampler/api/routes.h"

#define LIVE_LIMIT_BYTES ((size_t)64 << 20)

static const char *phase_name(enum server_phase phase)
{
    if (phase == SERVER_STARTING)
        return "starting";
    return phase == SERVER_READY ? "ready" : "stopping";
}

static const char *durability_name(enum durability durability)
{
    if (durability == DURABILITY_PROCESS)
        return "process";
    return durability == DURABILITY_NONE ? "none" : "fsync";
}

static enum error add_failure(struct streams *streams, struct buffer *out)
{
    if (!streams_failing(streams))
        return buffer_add_text(out, "null");
    (void)streams_failure(streams);
    return json_add_string(out, error_message());
}

static enum error add_server(struct request *request, struct service *service, struct buffer *out)
{
    struct server *server = request->thread->server;
    enum error error = buffer_print(out,
                                    "{\"server\":{\"version\":\"%s\",\"started\":%" PRId64
                                    ",\"now\":%.3f,\"phase\":\"%s\",\"durability\":",
                                    PACKAGE_VERSION, server->started_seconds, clock_wall_seconds(),
                                    phase_name(server_phase(server)));
    if (!error)
        error = service && service->state
                    ? buffer_print(out, "\"%s\"", durability_name(service->durability))
                    : buffer_add_text(out, "null");
    if (!error)
        error = buffer_print(out, ",\"guarded\":%s",
                             guard_anonymous(server->guard) & SCOPE_READ ? "false" : "true");
    if (!error && service)
        error = buffer_print(out, ",\"max_size\":%" PRId64, service->max_size);
    if (!error)
        error = buffer_add_text(out, ",\"failing\":");
    if (!error)
        error = service ? add_failure(service->streams, out) : buffer_add_text(out, "null");
    return error ? error : buffer_add_text(out, "},");
}

static enum error add_all(struct request *request, struct service *service, const char *chosen,
                          struct buffer *out)
{
    enum error error = add_server(request, service, out);
    if (!error)
        error = service
                    ? live_json_add(service->streams, service->live, chosen, out)
                    : buffer_add_text(out, "\"streams_count\":0,\"streams\":[],\"chosen\":null");
    return error ? error : buffer_add_text(out, "}\n");
}

enum MHD_Result route_live(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(LIVE_LIMIT_BYTES);
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error)
        return response_error(request, error);
    const char *chosen = uri_query_get(&query, "stream");
    error = uri_query_finish(&query);
    if (!error)
        error = add_all(request, service, chosen ? chosen : STREAM_DEFAULT, &body);
    uri_query_release(&query);
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}
