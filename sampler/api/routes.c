/* The table of paths; the handlers are in the other files of this folder. */
#include "sampler/api/routes.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
    {.path = "/batch", .metrics = PATH_BATCH, .no_store = true, .scoped = true, .get = route_batch},
    {.path = "/ack", .metrics = PATH_ACK, .post = route_ack},
    {.path = "/extend", .metrics = PATH_EXTEND, .post = route_extend},
    {.path = "/release", .metrics = PATH_RELEASE, .post = route_release},
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
    {.path = "/labels", .metrics = PATH_LABELS, .get = route_labels},
    {.path = "/where", .metrics = PATH_WHERE, .get = route_where},
    {.path = "/frames", .metrics = PATH_FRAMES, .get = route_frames},
    {.path = "/streams", .metrics = PATH_STREAMS, .get = route_streams, .post = route_create},
    {.path = "/streams/*",
     .metrics = PATH_STREAM,
     .get = route_stream,
     .remove = route_stream_delete},
    {.path = "/streams/*/pause", .metrics = PATH_STREAM, .post = route_stream_pause},
    {.path = "/streams/*/resume", .metrics = PATH_STREAM, .post = route_stream_resume},
    {.path = "/streams/*/seek", .metrics = PATH_STREAM, .post = route_stream_seek},
    {.path = "/streams/*/checkpoint", .metrics = PATH_STREAM, .post = route_stream_checkpoint},
    {.path = "/streams/*/restore", .metrics = PATH_STREAM, .post = route_stream_restore},
    {.path = "/healthz",
     .metrics = PATH_HEALTHZ,
     .always = true,
     .open = true,
     .get = route_healthz},
    {.path = "/readyz", .metrics = PATH_READYZ, .always = true, .open = true, .get = route_readyz},
    {.path = "/metrics", .metrics = PATH_METRICS, .always = true, .get = route_metrics},
    {.path = "/openapi.json", .metrics = PATH_OPENAPI, .get = route_openapi},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

const struct route *route_batch_route(void)
{
    return &routes[0];
}

/* Does `path` look like `pattern`, "/streams/" + name + rest? Where the name begins and ends. */
static bool matches(const char *pattern, const char *path, size_t *ret_begin, size_t *ret_end)
{
    const char *star = strchr(pattern, '*');
    size_t begin = star ? (size_t)(star - pattern) : 0;
    *ret_begin = *ret_end = 0;
    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, begin) != 0)
        return false;
    size_t length = strcspn(path + begin, "/");
    *ret_begin = begin;
    *ret_end = begin + length;
    return length > 0 && strcmp(star + 1, path + begin + length) == 0;
}

const struct route *route_find(char *path, const char **ret_name)
{
    size_t begin;
    size_t end;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (!matches(routes[i].path, path, &begin, &end))
            continue;
        if (end > 0) {
            path[end] = '\0';
            *ret_name = path + begin;
        }
        return &routes[i];
    }
    return NULL;
}

void route_allow(const struct route *route, char out[ROUTE_ALLOW_BYTES])
{
    bool get = !route || route->get;
    bool post = !route || route->post;
    bool remove = !route || route->remove;
    snprintf(out, ROUTE_ALLOW_BYTES, "%s%s%sOPTIONS", get ? "GET, HEAD, " : "",
             post ? "POST, " : "", remove ? "DELETE, " : "");
}

route_handler route_handler_of(const struct route *route, enum method method)
{
    switch (method) {
    case METHOD_GET:
    case METHOD_HEAD:
        return route->get;
    case METHOD_POST:
        return route->post;
    case METHOD_DELETE:
        return route->remove;
    default:
        return NULL;
    }
}
