/* SPDX-License-Identifier: MIT */
/*
 * GET and POST over HTTP/1.1 with keep-alive, a deadline and retries; one struct http_client per
 * thread.
 *
 * Refused or reset connections, DNS failures, 429, 503 and 507 (its disk is full), and a gateway's
 * statuses while its server is away (408, 502, 504) are retried with exponential backoff and jitter
 * (Retry-After is obeyed) until the call's deadline; so is a certificate that is refused, once the
 * server has answered. A call's first failure and its recovery are logged, once each.
 * Other statuses are left to the caller. Redirects are not followed and http_proxy is not used:
 * peers are near, and a response from elsewhere is not theirs. In the steady state this code
 * allocates nothing; libcurl does.
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
    bool reconnected;      /* came over a new connection, perhaps from another server than the
                            * last */
    bool repeated;         /* after a retry: behind a gateway it may come from another server */
    int unanswered;        /* how often the request was sent in vain: the server may have served
                            * it, and the response was lost with its connection or behind a
                            * gateway (502, 504). libcurl 7.80 or later; else 0 */
    struct buffer body;    /* owned by the caller: http_response_release() */
    struct buffer headers; /* raw header lines, "Name: value\r\n" each */
};

#define HTTP_RESPONSE_INIT(body_limit)                                    \
    {                                                                     \
        .body = BUFFER_INIT(body_limit), .headers = BUFFER_INIT(64 << 10) \
    }
void http_response_release(struct http_response *response);

/* The client's token, and the authorities it trusts. */
struct http_credentials {
    const char *token; /* sent as a bearer token; NULL: TOMBOLA_TOKEN, if that is set; "": none */
    const char *authority; /* PEM file of the authorities that may have signed the server's
                            * certificate; NULL: TOMBOLA_CA, if that is set, else the system's */
};

/* `base_url`: "http://host:port"; a trailing '/' is dropped. Texts are copied; `credentials` NULL:
 * from the environment. ERROR_USAGE: not a URL, or not a token. */
enum error http_client_open(const char *base_url, const struct http_credentials *credentials,
                            struct http_client **ret_client) MUST_CHECK;
void http_client_close(struct http_client *client);

/* GET base_url + target ("/batch?size=100"). *response is cleared and filled; its memory is reused
 * between calls. Without a response within `patience_ms` (< 0: forever): ERROR_NETWORK or
 * ERROR_TIMEOUT, naming the URL, the failure and how long it was tried (a try cut short by the
 * deadline says nothing: the last complete one is reported). ERROR_CANCELLED: soon after
 * stop_requested() or http_client_cancel(). 429 is retried, 408, 502, 503, 504 and 507 only if
 * `retry_busy`; at the end of patience they are the response. A body over the response's limit is
 * ERROR_NETWORK. */
enum error http_client_get(struct http_client *client, const char *target, int64_t patience_ms,
                           bool retry_busy, struct http_response *response) MUST_CHECK;

/* The same with a JSON body (borrowed). Only for idempotent requests, since they are retried as
 * GETs are. */
enum error http_client_post(struct http_client *client, const char *target,
                            const struct buffer *body, int64_t patience_ms, bool retry_busy,
                            struct http_response *response) MUST_CHECK;

/* From now on, a retryable response for which `is_answer` is true is returned to the caller. */
void http_client_judge(struct http_client *client,
                       bool (*is_answer)(const struct http_response *response));

/* From now on, a call makes a single try and returns its result. */
void http_client_try_once(struct http_client *client);

/* From now on, a call that is retried is not logged: its caller does that. */
void http_client_mute(struct http_client *client);

/* Is the status retryable? 408, 429, 502, 503, 504, 507. */
bool http_status_is_passing(int status);

/* How long a request that is in flight when it is cancelled may still wait for its response (0: not
 * at all), since the server keeps what it has promised whether or not we read it. */
void http_client_set_grace(struct http_client *client, int64_t grace_ms);
/* From another thread: the call in progress and all later ones end with ERROR_CANCELLED. */
void http_client_cancel(struct http_client *client);

/* Copies a header's value (case-insensitive name), trimmed, into `out`; false: absent. */
bool http_response_header(const struct http_response *response, const char *name, char *out,
                          size_t bytes);

/* The `detail` (else `title`, else the first 200 bytes) of a problem+json body, for messages.
 * error_message() stays what it is. */
void http_response_problem(const struct http_response *response, char *out, size_t bytes);

#endif
