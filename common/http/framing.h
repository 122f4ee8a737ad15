/* SPDX-License-Identifier: MIT */
/*
 * Checks what a request's line and header say of target, host and body, and takes the body. Refuses
 * what two parsers may read differently (the end of a body, a target with a NUL), which is how
 * requests are smuggled through proxies.
 *
 * Threads: the request's HTTP thread.
 */
#ifndef COMMON_HTTP_FRAMING_H
#define COMMON_HTTP_FRAMING_H

#include <microhttpd.h>
#include <stddef.h>

#include "common/http/request.h"

/* The request line is complete; the header may not be. Refuses a query that libmicrohttpd cannot
 * parse at once, and ends the connection. */
void framing_look_at_target(struct request *request);
/* The header is complete. A refusal here makes libmicrohttpd close the connection. A request that
 * leaves it no room for the response's header is refused as above. */
enum MHD_Result framing_begin(struct request *request, const char *method, const char *version);
/* Takes a piece of the body: keeps a POST's unless the request is refused, discards all others.
 * MHD_NO closes the connection: the body is far too long. */
enum MHD_Result framing_take(struct request *request, const char *upload, size_t *upload_bytes);

#endif
