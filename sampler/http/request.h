/*
 * One HTTP request from its first line to its answer's last byte. Recycled by its thread; belongs
 * to one thread, except while its connection is suspended: then a waiter of the journal or a job of
 * the slow lane has it, and only resumes the connection when it is done.
 */
#ifndef SAMPLER_HTTP_REQUEST_H
#define SAMPLER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread_pool.h"
#include "sampler/batch/batch_request.h"
#include "sampler/http/bearer_tokens.h"
#include "sampler/http/connection.h"
#include "sampler/http/http_thread.h"
#include "sampler/journal/journal_waiter.h"
#include "sampler/stream/stream.h"

/* Longer request targets are answered with 414. */
#define REQUEST_TARGET_BYTES 6000
/* Longer bodies are answered with 413. */
#define REQUEST_BODY_BYTES (1 << 20)

enum method {
    METHOD_GET = 1,
    METHOD_HEAD = 2,
    METHOD_POST = 4,
    METHOD_DELETE = 8,
    METHOD_OPTIONS = 16,
    METHOD_OTHER = 32
};

struct route;
struct request;
struct service;

/* Goes on with a request whose connection was resumed. */
typedef enum MHD_Result (*request_continuation)(struct request *request, struct service *service);

/* Where the target stands in the request line, in MHD's memory: for framing_begin() only. */
struct request_line {
    const char *target;  /* NULL: it is not known */
    size_t target_bytes; /* up to the first NUL */
    bool odd;            /* it has a control character */
};

struct request {
    struct request *next; /* in the thread's free list */
    struct http_thread *thread;
    struct MHD_Connection *connection;
    struct connection *peer;   /* NULL: there was no memory for it */
    const struct route *route; /* NULL: no such path */
    enum method method;
    struct request_line line;
    int64_t started_ns;
    uint64_t uploaded_bytes;
    bool seen;     /* the header is complete */
    bool active;   /* counted in thread->active */
    bool head;     /* HEAD: nothing is drawn, no body is sent */
    bool too_long; /* the target was not kept */
    bool answered; /* a response is queued, and counted */

    /* Who asks: NULL and not guarded, everybody may do everything. Until the first suspension. */
    bool guarded;
    const struct bearer_token *token;

    struct buffer body; /* of a POST; released with the request */

    /* While the connection is suspended. */
    request_continuation again; /* NULL: from the start */
    request_continuation then;  /* of handler_finish() */
    _Atomic int gate;           /* what request_wait() and the waiter have reached */
    struct journal_waiter waiter;
    struct pool_job job;
    void *work;                               /* what the handler keeps over a suspension */
    void (*release)(struct request *request); /* NULL, or frees `work` */
    enum error outcome;                       /* what is answered when the connection comes back */
    struct stream *stream;                    /* taken: request_put() gives it back */

    /* For the log (audit.h). */
    const char *change; /* NULL: nothing is told */
    struct log_field change_detail;

    /* GET /batch */
    bool batch_parsed;
    struct batch_request batch;
    enum batch_format format;
    struct stream_batch drawn;
    struct output *output; /* owned until a response has it */
    size_t output_bytes;

    const char *name;  /* in target: what stands behind "/streams/", decoded; or NULL */
    const char *query; /* in target: what stands behind '?', as it came; or NULL */
    const char *path;  /* in target: what stands before '?', decoded; NULL: it was not looked at */
    /* Not cleared between requests: */
    char changer[TOKEN_NAME_BYTES]; /* when there is a `change`; "": no token was asked for */
    char target[REQUEST_TARGET_BYTES + 1];
    struct batch_lease lease;   /* when batch.leased */
    struct error_report report; /* the message of `outcome`, when it came from another thread */
};

/* A request for `target` (as it stands in the request line; NULL is taken as ""). NULL: no memory.
 */
struct request *request_take(struct http_thread *thread, struct MHD_Connection *connection,
                             const char *target);
/* Notes how long it took and gives it back to its thread. */
void request_put(struct request *request);
/* What it is counted under, and where: in its stream's counters, if it has a stream. */
enum metrics_path request_path(const struct request *request);
struct metrics *request_metrics(const struct request *request);
/* For the thread's end. */
void request_free_list(struct request *first);

/* The header's value, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* May whoever asks do what one of `scopes` (enum scope) allows, to that stream (NULL: to any)? */
bool request_may(const struct request *request, int scopes, const char *stream);

/* Suspends the connection; it comes back through request_resume(), from any thread, into `again`.
 */
void request_suspend(struct request *request, request_continuation again);
void request_resume(struct request *request);

/* The waiter for a call that may make its caller wait. When the call says so, request_wait()
 * suspends the connection until the journal is through; it may be through already. */
struct journal_waiter *request_waiter(struct request *request);
void request_wait(struct request *request, request_continuation again);

#endif
