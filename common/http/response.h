/* SPDX-License-Identifier: MIT */
/*
 * Responses: each function queues one response to the request and updates the counters. Texts are
 * copied. All return what a libmicrohttpd handler returns.
 */
#ifndef COMMON_HTTP_RESPONSE_H
#define COMMON_HTTP_RESPONSE_H

#include <microhttpd.h>

#include "common/buffer.h"
#include "common/http/request.h"

#define JSON_CONTENT_TYPE "application/json"

struct response_header {
    const char *name;
    const char *value;
};

/* Sends request->output (taken) as a 200 with `headers` in addition to Content-Type. */
enum MHD_Result response_output(struct request *request, const char *content_type,
                                const struct response_header *headers, size_t header_count);
/* Takes the buffer's memory; the buffer is empty afterwards. */
enum MHD_Result response_buffer(struct request *request, const char *content_type,
                                struct buffer *buffer);
/* JSON in `buffer` (taken), with a status and an additional header (NULL: none), or the error. */
enum MHD_Result response_json(struct request *request, enum error error, int status,
                              struct buffer *buffer, const struct response_header *header);
/* Bytes with static lifetime, with an additional header (NULL: none). */
enum MHD_Result response_static(struct request *request, const char *content_type,
                                const char *bytes, size_t length,
                                const struct response_header *header);
/* A status without a body: 204. */
enum MHD_Result response_empty(struct request *request, int status);
/* OPTIONS: 204 with Allow. */
enum MHD_Result response_allow(struct request *request);
/* application/problem+json. 405 gets Allow, 401 WWW-Authenticate, 503 Retry-After. */
enum MHD_Result response_problem(struct request *request, int status, const char *detail);
/* The same; closes the connection. */
enum MHD_Result response_last(struct request *request, int status, const char *detail);
/* The same while the header is being read, bypassing libmicrohttpd: sends it at once and shuts the
 * connection down. */
void response_at_once(struct request *request, int status, const char *detail);
/* This thread's message and kind, with the code's status. */
enum MHD_Result response_error(struct request *request, enum error error);
#define RESPONSE_TOKEN_NEEDED "a token is needed: Authorization: Bearer TOKEN"
#define RESPONSE_CROSS_SITE                                                                        \
    "a page of another site may not change anything here (Origin, Sec-Fetch-Site; without tokens " \
    "also Host, which may be the name of any site: start with --token-file or --allow-anonymous "  \
    "to be asked under it)"
/* 403: the token lacks the scopes, or is not for `name` (NULL: anything). 401: none was sent. */
enum MHD_Result response_forbidden(struct request *request, int scopes, const char *name);

#endif
