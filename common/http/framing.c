/* SPDX-License-Identifier: MIT */
#include "common/http/framing.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "common/http/connection.h"
#include "common/http/dispatch.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/text.h"

/* A body up to this length is read to its end, so that its sender reads the response. */
#define BODY_SWALLOW_BYTES (16 << 20)
#define TARGET_TOO_LONG "the request target is longer than 6000 bytes"
#define BODY_TOO_LARGE "the body is longer than 1048576 bytes"
/* What libmicrohttpd can certainly parse in SERVER_CONNECTION_BYTES. */
#define TARGET_LIBRARY_BYTES 7500
#define PARAMETERS_MOST 64
#define FIELD_LIBRARY_BYTES 64     /* what it keeps for a header field, parameter or cookie */
#define RESPONSE_LIBRARY_BYTES 768 /* the longest header of a response, a leased batch's as CSV */
#define HEADER_LIBRARY_BYTES (SERVER_CONNECTION_BYTES - RESPONSE_LIBRARY_BYTES)

static enum method method_of(const char *name)
{
    static const struct {
        const char *name;
        enum method method;
    } methods[] = {{MHD_HTTP_METHOD_GET, METHOD_GET},
                   {MHD_HTTP_METHOD_HEAD, METHOD_HEAD},
                   {MHD_HTTP_METHOD_POST, METHOD_POST},
                   {MHD_HTTP_METHOD_DELETE, METHOD_DELETE},
                   {MHD_HTTP_METHOD_OPTIONS, METHOD_OPTIONS}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    }
    return METHOD_OTHER;
}

/* What the header says of host and body. */
struct framing {
    int hosts; /* how many Host there are */
    bool odd_host;
    int lengths; /* how many Content-Length */
    bool odd_length;
    int64_t announced_bytes; /* the most that there is, where it is more */
    int codings;             /* how many Transfer-Encoding */
    bool odd_coding;
    bool expects; /* 100-continue */
    bool odd_expect;
    const char *host; /* NULL: none, as for the one below */
    const char *origin;
    bool cross_site;
    const char *end;   /* of the line before, without what ends it */
    const char *wrong; /* with the lines themselves; NULL: nothing */
};

/* Only characters of a host and a port (RFC 3986, section 3.2.2)? */
static bool is_host(const char *value)
{
    static const bool allowed[256] = {
        ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true, ['!'] = true,
        ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true,
        ['('] = true,         [')'] = true,         ['*'] = true,         ['+'] = true,
        [','] = true,         ['-'] = true,         ['.'] = true,         [':'] = true,
        [';'] = true,         ['='] = true,         ['['] = true,         [']'] = true,
        ['_'] = true,         ['~'] = true,
    };
    while (allowed[(unsigned char)*value])
        value++;
    return *value == '\0';
}

/* RFC 9112, section 6.2: digits and nothing else. */
static bool is_length(const char *value)
{
    return *value && value[strspn(value, "0123456789")] == '\0';
}

/* libmicrohttpd 0.9.75 overwrites each line end with a NUL, accepts an LF alone as a line end, and
 * a NUL as a value's end: what a proxy takes for one line must not be two here, nor be truncated.
 * 1.0 refuses both itself, and ends a value at the first of the blanks behind it: then they are
 * still there, and the CR. Lines that are not in one piece of memory are not compared. */
static void check_line_end(struct framing *framing, const char *next)
{
    uintptr_t bytes = (uintptr_t)next - (uintptr_t)framing->end;
    if (bytes == 2 || bytes > SERVER_CONNECTION_BYTES)
        return;
    if (bytes < 2 || strspn(framing->end + 1, " \t") < bytes - 3 || next[-2] != '\r')
        framing->wrong = "a line of the header has a NUL, or does not end with CR LF";
}

/* "same-site" is another port or name: its page may not read the response. "none" is a person. */
static bool is_other_site(const char *fetch_site)
{
    return strcasecmp(fetch_site, "cross-site") == 0 || strcasecmp(fetch_site, "same-site") == 0;
}

/* Called for every header line: the first letter avoids most comparisons. */
static enum MHD_Result add_framing(void *context, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct framing *framing = context;
    size_t name_bytes = strlen(name);
    (void)kind;
    check_line_end(framing, name);
    if (name_bytes == 0 || strchr(" \t", name[name_bytes - 1]))
        framing->wrong = "a name in the header is empty, or has a space before its colon";
    if (!value)
        value = name + name_bytes + 1;
    framing->end = value + strlen(value);
    if (memchr(value, '\r', (size_t)(framing->end - value)))
        framing->wrong = "a line of the header has a CR";
    switch (name[0] | 0x20) {
    case 'h':
        if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
            framing->hosts++;
            framing->host = value;
            framing->odd_host |= !is_host(value);
        }
        break;
    case 'c':
        if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
            framing->lengths++;
            framing->odd_length |= !is_length(value);
            if (!text_parse_integer(value, strlen(value), 0, INT64_MAX, &framing->announced_bytes))
                framing->announced_bytes = INT64_MAX;
        }
        break;
    case 't':
        if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
            framing->codings++;
            framing->odd_coding |= strcasecmp(value, "chunked") != 0;
        }
        break;
    case 'o':
        if (strcasecmp(name, MHD_HTTP_HEADER_ORIGIN) == 0)
            framing->origin = value;
        break;
    case 's':
        framing->cross_site |= strcasecmp(name, "Sec-Fetch-Site") == 0 && is_other_site(value);
        break;
    case 'e':
        if (strcasecmp(name, MHD_HTTP_HEADER_EXPECT) == 0) {
            framing->expects = true;
            framing->odd_expect |= strcasecmp(value, "100-continue") != 0;
        }
        break;
    default:
        break;
    }
    return MHD_YES;
}

/* RFC 9112, section 3.2: one Host, which HTTP/1.0 may omit. NULL: correct. */
static const char *what_is_wrong_with_host(const struct framing *framing, const char *version)
{
    if (framing->hosts == 1 && !framing->odd_host)
        return NULL;
    if (framing->hosts > 1)
        return "the header has more than one Host";
    if (framing->odd_host)
        return "Host must be a name or an address, and a port if there is one";
    return strcmp(version, MHD_HTTP_VERSION_1_0) == 0 ? NULL : "the header has no Host";
}

/* Is the request from another site's page? Browsers say so, whoever wrote the page. "null" is the
 * origin of a page without one. */
static bool is_cross_site(const struct framing *framing)
{
    if (framing->cross_site || !framing->origin)
        return framing->cross_site;
    const char *host = strstr(framing->origin, "://");
    return !host || !framing->host || strcasecmp(host + 3, framing->host) != 0;
}

/* Can this name belong to someone else? Then their pages reach this server as same-site, once it
 * resolves to an address of this machine (DNS rebinding). Addresses, single-word names and names
 * under reserved domains (RFC 6761, RFC 6762, ICANN's "internal") cannot. */
static bool is_public_name(const char *host)
{
    static const char *const reserved[] = {"localhost", "local", "internal", "test"};
    size_t length = strcspn(host, ":");
    const char *dot = memrchr(host, '.', length);
    if (!dot || host[0] == '[' || (dot[1] >= '0' && dot[1] <= '9'))
        return false;
    size_t bytes = (size_t)(host + length - (dot + 1));
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (bytes == strlen(reserved[i]) && strncasecmp(dot + 1, reserved[i], bytes) == 0)
            return false;
    }
    return true;
}

/* Anyone who reaches the server may do everything: it is meant for this machine alone. */
static bool is_for_all(const struct request *request)
{
    return guard_anonymous(request->thread->server->guard) == SCOPE_ALL;
}

/* Only spaces are between two words of the request line. Words that are not from one line in memory
 * are not compared. */
static bool is_gap(const char *end, const char *next)
{
    uintptr_t bytes = (uintptr_t)next - (uintptr_t)end;
    if (bytes > SERVER_CONNECTION_BYTES)
        return true;
    return bytes > 0 && strspn(end + 1, " ") >= bytes - 1;
}

/* libmicrohttpd ends a word at a NUL: the rest of the word must not be lost, or the response would
 * be to a different request. */
static const char *what_is_wrong_with_line(const struct request *request, const char *method,
                                           const char *version)
{
    const struct request_line *line = &request->line;
    if (line->odd)
        return "the request target has a control character";
    if (line->target && (!is_gap(method + strlen(method), line->target) ||
                         !is_gap(line->target + line->target_bytes, version)))
        return "the request line has a NUL";
    return NULL;
}

/* Of the whole header. NULL: nothing. */
static const char *what_is_wrong(const struct request *request, const struct framing *framing,
                                 const char *method, const char *version)
{
    const char *wrong = what_is_wrong_with_line(request, method, version);
    if (!wrong)
        wrong = framing->wrong;
    if (!wrong)
        wrong = what_is_wrong_with_host(framing, version);
    if (wrong)
        return wrong;
    if (framing->lengths + framing->codings > 1)
        return "the header has more than one of Content-Length and Transfer-Encoding";
    if (framing->odd_coding)
        return "Transfer-Encoding must be \"chunked\" or absent";
    return framing->odd_length ? "Content-Length must be a decimal number of bytes" : NULL;
}

static enum MHD_Result refuse_body(struct request *request)
{
    return response_problem(request, MHD_HTTP_CONTENT_TOO_LARGE, BODY_TOO_LARGE);
}

/* libmicrohttpd 0.9.75 never answers a request whose parameters need more memory than its
 * connection has left: it uses 64 bytes for each, and the line in the same
 * SERVER_CONNECTION_BYTES. */
static bool fits_library(const struct request *request)
{
    const char *target = request->line.target;
    size_t parameters = 1;
    if (request->line.target_bytes > TARGET_LIBRARY_BYTES)
        return !strchr(target, '?');
    for (const char *end = strchr(target, '?'); end; end = strchr(end + 1, '&'))
        parameters++;
    return parameters <= PARAMETERS_MOST;
}

/* Then libmicrohttpd 0.9.75 has no room for the response's header either: it would close the
 * connection after a batch was drawn. It copies cookies before it parses them. */
static bool leaves_room_for_response(const struct request *request, size_t header_bytes)
{
    const int kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND;
    int fields = MHD_get_connection_values(request->connection, kinds, NULL, NULL);
    const char *cookie = request_header(request, MHD_HTTP_HEADER_COOKIE);
    return header_bytes + (cookie ? strlen(cookie) : 0) + (size_t)fields * FIELD_LIBRARY_BYTES <=
           HEADER_LIBRARY_BYTES;
}

static enum MHD_Result refuse_header(struct request *request)
{
    if (request->too_long)
        response_at_once(request, MHD_HTTP_URI_TOO_LONG, TARGET_TOO_LONG);
    else
        response_at_once(
            request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request's header is too long: with 64 bytes more for each of its fields, "
            "parameters and cookies it may have 11520");
    return MHD_NO;
}

void framing_look_at_target(struct request *request)
{
    if (!request->line.target || fits_library(request))
        return;
    if (request->too_long)
        response_at_once(request, MHD_HTTP_URI_TOO_LONG, TARGET_TOO_LONG);
    else
        response_at_once(request, MHD_HTTP_BAD_REQUEST, "the query has more than 64 parameters");
}

enum MHD_Result framing_begin(struct request *request, const char *method, const char *version)
{
    struct framing framing = {.end = version + strlen(version)};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    request->seen = true;
    request->method_name = method;
    request->method = method_of(method);
    request->head = request->method == METHOD_HEAD;
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_framing, &framing);
    if (info) /* the empty line, too */
        check_line_end(&framing, method + info->header_size - 2);
    if (info && !leaves_room_for_response(request, info->header_size))
        return refuse_header(request);
    request->cross_site = is_cross_site(&framing) ||
                          (framing.host && is_for_all(request) && is_public_name(framing.host));
    const char *wrong = what_is_wrong(request, &framing, method, version);
    if (wrong)
        return response_last(request, MHD_HTTP_BAD_REQUEST, wrong);
    if (framing.odd_expect && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)
        return response_last(request, MHD_HTTP_EXPECTATION_FAILED,
                             "Expect must be \"100-continue\" or absent");
    if (framing.announced_bytes > BODY_SWALLOW_BYTES ||
        (framing.expects && framing.announced_bytes > REQUEST_BODY_BYTES))
        return response_last(request, MHD_HTTP_CONTENT_TOO_LARGE, BODY_TOO_LARGE);
    if (framing.announced_bytes == 0 && framing.codings == 0)
        return MHD_YES;
    connection_enter(request->peer, CONNECTION_BODY, 0);
    enum MHD_Result result = dispatch_header(request, framing.expects);
    if (!request->refusal && framing.announced_bytes > REQUEST_BODY_BYTES)
        request->refusal = refuse_body;
    return result;
}

static enum MHD_Result refuse_for_memory(struct request *request)
{
    return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "bodies that are being read have all that --max-body-memory allows; "
                            "ask again");
}

/* Drops the bytes of the body kept so far at once, the rest as they come. */
static void refuse(struct request *request, request_refusal refusal)
{
    request_release_body(request);
    request->refusal = refusal;
}

/* Counts the memory that the body's buffer will need before it grows: it doubles. */
static bool count(struct request *request, size_t bytes)
{
    size_t needed = request->body.length + bytes + 1;
    size_t room = BODY_SMALL_BYTES;
    if (needed <= room || needed <= request->counted_bytes)
        return true;
    while (room < needed)
        room *= 2;
    if (room > REQUEST_BODY_BYTES) /* without the NUL: one body fits into the least limit */
        room = REQUEST_BODY_BYTES;
    if (memory_budget_take(request->thread->bodies, room - request->counted_bytes))
        return false;
    request->counted_bytes = room;
    return true;
}

enum MHD_Result framing_take(struct request *request, const char *upload, size_t *upload_bytes)
{
    size_t bytes = *upload_bytes;
    *upload_bytes = 0;
    request->uploaded_bytes += bytes;
    connection_enter(request->peer, CONNECTION_BODY, request->uploaded_bytes);
    if (request->uploaded_bytes > BODY_SWALLOW_BYTES)
        return MHD_NO;
    if (!request->refusal && request->uploaded_bytes > REQUEST_BODY_BYTES)
        refuse(request, refuse_body);
    if (request->refusal || request->method != METHOD_POST)
        return MHD_YES;
    if (!count(request, bytes)) {
        refuse(request, refuse_for_memory);
        return MHD_YES;
    }
    return !buffer_add(&request->body, upload, bytes) ? MHD_YES : MHD_NO;
}
