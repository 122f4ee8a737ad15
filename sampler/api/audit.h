/* SPDX-License-Identifier: MIT */
/*
 * What the log says of requests, in fields of their own: who changed what.
 * Never a token, but its name in --token-file; never a line for a draw.
 *
 * Released leases are some hundred lines a minute and a sum.
 *
 * Threads: audit_expect() and audit_done() from the request's HTTP thread, the rest from every one.
 */
#ifndef SAMPLER_API_AUDIT_H
#define SAMPLER_API_AUDIT_H

#include "common/http/request.h"
#include "common/log.h"

/* Announces a change: audit_done() logs `what` and `detail` once it has happened (the text of
 * `detail` lives as long as the request; key NULL: none). From the handler, before it waits. */
void audit_expect(struct request *request, const char *what, struct log_field detail);
/* It is kept. Nothing happens without audit_expect(). */
void audit_done(struct request *request);

/* Writes the sums of what was held back, when a minute is over. Once a second or so; at the end
 * with INT64_MAX. */
void audit_tick(int64_t now_ms);

#endif
