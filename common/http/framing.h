/* SPDX-License-Identifier: MIT */
/*
 * What a request's line and header say of the target, the host and the body, and the body itself.
 * What two readers may read differently, a body's end or a target with a NUL in it, is refused:
 * that is how requests are smuggled through proxies.
 *
 * Threads: the request's HTTP thread.
 */
#ifndef COMMON_HTTP_FRAMING_H
#define COMMON_HTTP_FRAMING_H

#include <microhttpd.h>
#include <stddef.h>

#include "common/http/request.h"

/* The request line is there; the header may not be. A query that libmicrohttpd cannot take apart is
 * refused at once, and the connection ended. */
void framing_look_at_target(struct request *request);
/* The header is there. A refusal at this point makes MHD close the connection. One that leaves MHD
 * no room for the response's is refused as above. */
enum MHD_Result framing_begin(struct request *request, const char *method, const char *version);
/* A piece of the body: a POST's is kept unless the request is refused, everything else is
 * swallowed. MHD_NO closes the connection: the body is far too long. */
enum MHD_Result framing_take(struct request *request, const char *upload, size_t *upload_bytes);

#endif
