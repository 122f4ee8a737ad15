/*
 * What the log says of requests, in fields of their own: who changed what, and who was refused.
 * Never a token, but its name in --token-file; never a line for a draw.
 *
 * Whoever has no token can cause lines too: refusals are one line and a sum a minute (401 and 403
 * apart), released leases some hundred lines.
 *
 * Threads: audit_expect() and audit_done() from the request's HTTP thread, the rest from every one.
 */
#ifndef SAMPLER_HTTP_AUDIT_H
#define SAMPLER_HTTP_AUDIT_H

#include "common/log.h"
#include "sampler/http/request.h"

/* The request may change something: `what` is told by audit_done() when it did, with `detail` (a
 * text of it lives as long as the request; key NULL: none). From the handler, before it waits. */
void audit_expect(struct request *request, const char *what, struct log_field detail);
/* It is kept. Nothing happens without audit_expect(). */
void audit_done(struct request *request);

/* The request is answered with this status, 401 or 403. */
void audit_refused(struct request *request, int status, const char *reason);

/* Writes the sums of what was held back, when a minute is over. Once a second or so; at the end
 * with INT64_MAX. */
void audit_tick(int64_t now_ms);

#endif
