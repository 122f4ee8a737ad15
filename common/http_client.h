/* SPDX-License-Identifier: MIT */
/*
 * GET and POST over HTTP with keep-alive, a deadline and retries; one struct http_client a thread.
 *
 * Connection refused, reset, DNS failure, 429 and 503, and a gateway's statuses while the server
 * behind it is away (408, 502, 504) are tried again with exponential backoff and jitter
 * (Retry-After is obeyed) until the deadline of the call; each first failure of a call is logged
 * once, and so is the recovery. Other statuses are the caller's to judge. Redirects are not
 * followed and http_proxy is not used: peers are near, and an answer from elsewhere is not theirs.
 * In the steady state nothing here allocates; libcurl does for its own.
 */
#ifndef COMMON_HTTP_CLIENT_H
#define COMMON_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

struct http_client;

struct http_response {
    int status;            /* 200, 204, 404, ... */
    bool reconnected;      /* on a new connection: it may come from another server than the last */
    bool repeated;         /* of several tries: behind a gateway, too, another may be there now */
    struct buffer body;    /* owned by the caller: http_response_release() */
    struct buffer headers; /* raw header lines, "Name: value\r\n" each */
};

#define HTTP_RESPONSE_INIT(body_limit)                                    \
    {                                                                     \
        .body = BUFFER_INIT(body_limit), .headers = BUFFER_INIT(64 << 10) \
    }
void http_response_release(struct http_response *response);

/* Who asks, and whom it trusts. */
struct http_credentials {
    const char *token; /* sent as a bearer token; NULL: TOMBOLA_TOKEN, if that is set; "": none */
    const char *authority; /* the PEM file of those who may have signed the server's certificate;
                            * NULL: TOMBOLA_CA, if that is set, else the system's */
};

/* `base_url`: "http://host:port", a trailing '/' is dropped. Texts are copied; `credentials` NULL:
 * those of the environment. ERROR_USAGE if it is no URL, or no token. */
enum error http_client_open(const char *base_url, const struct http_credentials *credentials,
                            struct http_client **ret_client) MUST_CHECK;
void http_client_close(struct http_client *client);

/* GET base_url + target ("/batch?size=100"). *response is cleared and filled; its memory is reused
 * from call to call. ERROR_NETWORK or ERROR_TIMEOUT when `patience_ms` (< 0: for ever) is over
 * without an answer, naming URL, what happened and how long it was tried (a try that the deadline
 * cuts short says nothing: the whole one before it counts); ERROR_CANCELLED soon after
 * stop_requested() or http_client_cancel(). 429 is retried, 408, 502, 503 and 504 only if
 * `retry_busy`; when patience is over they are the answer. A body over the response's limit is
 * ERROR_NETWORK. */
enum error http_client_get(struct http_client *client, const char *target, int64_t patience_ms,
                           bool retry_busy, struct http_response *response) MUST_CHECK;

/* The same with a body of JSON, borrowed: for requests that may come twice, since they are tried
 * again as a GET is. */
enum error http_client_post(struct http_client *client, const char *target,
                            const struct buffer *body, int64_t patience_ms, bool retry_busy,
                            struct http_response *response) MUST_CHECK;

/* From now on an answer that says "later", and for which this is true, is the caller's to judge. */
void http_client_judge(struct http_client *client,
                       bool (*is_answer)(const struct http_response *response));

/* From now on a call is one try: what it meets is its result. */
void http_client_try_once(struct http_client *client);

/* Does the status say "later"? 408, 429, 502, 503, 504. */
bool http_status_is_passing(int status);

/* A request that is under way when it is cancelled may be answered for so long (0: no longer): its
 * answer is a promise that the server keeps, heard or not. */
void http_client_set_grace(struct http_client *client, int64_t grace_ms);
/* From another thread: the call in progress and all later ones end with ERROR_CANCELLED. */
void http_client_cancel(struct http_client *client);

/* The value of a header (case-insensitive) without surrounding space, into `out`; false: absent. */
bool http_response_header(const struct http_response *response, const char *name, char *out,
                          size_t bytes);

/* The `detail` (else `title`, else the first 200 bytes) of a problem+json body, for messages. */
void http_response_problem(const struct http_response *response, char *out, size_t bytes);

#endif
