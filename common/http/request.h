/* SPDX-License-Identifier: MIT */
/*
 * One HTTP request from its first line to its response's last byte. Recycled by its thread. Belongs
 * to one thread, except while its connection is suspended: then whoever it waits for, or a thread
 * pool's job, owns it and does nothing with it but resume the connection when done.
 */
#ifndef COMMON_HTTP_REQUEST_H
#define COMMON_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/http/bearer_tokens.h"
#include "common/http/connection.h"
#include "common/http/http_thread.h"
#include "common/http/route.h"
#include "common/thread_pool.h"

/* Longer request targets are answered with 414. */
#define REQUEST_TARGET_BYTES 6000
/* Longer bodies are answered with 413. */
#define REQUEST_BODY_BYTES (1 << 20)

struct api_request; /* the application's per-request data */

/* Continues a request whose connection was resumed. */
typedef enum MHD_Result (*request_continuation)(struct request *request, struct service *service);

/* Answers a refused request. */
typedef enum MHD_Result (*request_refusal)(struct request *request);

/* The target in the request line, in libmicrohttpd's memory: for framing_begin() only. */
struct request_line {
    const char *target;  /* NULL: unknown */
    size_t target_bytes; /* up to the first NUL */
    bool odd;            /* contains a control character */
};

struct request {
    struct request *next; /* in the thread's free list */
    struct http_thread *thread;
    struct MHD_Connection *connection;
    struct connection *peer;   /* NULL: there was no memory for it */
    const struct route *route; /* NULL: no such path */
    enum method method;
    const char *method_name; /* as received, in libmicrohttpd's memory; set with `method` */
    struct request_line line;
    int64_t started_ns;
    uint64_t uploaded_bytes;
    bool seen;       /* the header is complete */
    bool active;     /* counted in thread->active */
    bool head;       /* HEAD: changes nothing, sends no body */
    bool too_long;   /* the target was not kept */
    bool answered;   /* a response is queued, and counted */
    bool last;       /* the connection closes after its response */
    bool cross_site; /* from a page of another site: may read what browsers allow, no more */
    bool recalled;   /* same target as at request_remember(); name, query and path are NULL */

    const struct bearer_token *token; /* NULL: none was sent. Valid as guard.h says */

    struct metrics *metrics; /* counters to use: the thread's, or the application's */
    uint64_t items;          /* contained in its response, for the counters */

    request_refusal refusal; /* found before the whole body was read; NULL: none */
    struct buffer body;      /* of a POST that is not refused; released with the request */
    size_t counted_bytes;    /* of the body, in thread->bodies */

    /* While the connection is suspended. */
    request_continuation again; /* NULL: from the start */
    _Atomic int gate;           /* whether request_wait() and request_pass() have been called */
    struct pool_job job;

    struct output *output; /* owned until a response takes it */
    size_t output_bytes;

    const char *name;  /* in target: what matches the route's "*", decoded; or NULL */
    const char *query; /* in target: what follows '?', not decoded; or NULL */
    const char *path;  /* in target: what precedes '?', decoded; NULL: not parsed */
    /* Not cleared between requests: */
    struct api_request *api; /* after this struct: application.request_bytes */
    char target[REQUEST_TARGET_BYTES + 1];
};

/* A request for `target` (as in the request line; NULL means ""). NULL: no memory. */
struct request *request_take(struct http_thread *thread, struct MHD_Connection *connection,
                             const char *target);
/* Records its duration and returns it to its thread. */
void request_put(struct request *request);
/* Frees its body. */
void request_release_body(struct request *request);
/* The path that it is counted under. */
int request_path(const struct request *request);
/* The next request with the same path and query will be `recalled`. */
void request_remember(struct request *request);

/* The header's value, or NULL. */
const char *request_header(const struct request *request, const char *name);
/* All lines of the header as the one list that they are (RFC 9110, section 5.3); returns its
 * length. What does not fit is left out. */
#define REQUEST_LIST_BYTES 8192 /* a header is not longer */
size_t request_header_list(const struct request *request, const char *name,
                           char ret_list[REQUEST_LIST_BYTES]);

/* "192.0.2.7:4711" or "[2001:db8::7]:4711"; "": unknown. */
#define REQUEST_PEER_BYTES 80
void request_peer(const struct request *request, char out[REQUEST_PEER_BYTES]);

/* May the client do what one of `scopes` (bits of bearer_tokens.h) allows, to `name` (NULL: to
 * anything)? */
bool request_may(const struct request *request, int scopes, const char *name);

/* Has the client closed the connection? Any thread, while it is suspended; a client that closed
 * only its sending side counts as gone. False if there was no memory for its peer. */
bool request_is_abandoned(const struct request *request);

/* Suspends the connection; request_resume(), from any thread, continues in `again`. */
void request_suspend(struct request *request, request_continuation again);
void request_resume(struct request *request);

/* Wraps a call whose result may come later: first request_gate(); the finisher calls request_pass()
 * from any thread, perhaps before the call returns; if the call is pending, request_wait() suspends
 * the connection until then. */
void request_gate(struct request *request);
void request_pass(struct request *request);
void request_wait(struct request *request, request_continuation again);

#endif
