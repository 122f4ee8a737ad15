/* SPDX-License-Identifier: MIT */
/*
 * Audit log of requests, in separate fields: who changed what. Never logs a token, only its name in
 * --token-file; never logs draws.
 *
 * Released leases are limited to a few hundred lines per minute and a sum.
 *
 * Threads: audit_expect() and audit_done() from the request's HTTP thread, the rest from any.
 */
#ifndef SAMPLER_API_AUDIT_H
#define SAMPLER_API_AUDIT_H

#include "common/http/request.h"
#include "common/log.h"

/* Announces a change: audit_done() logs `what` and `detail` once it has happened (the text of
 * `detail` lives as long as the request; key NULL: none). The handler calls it before it waits. */
void audit_expect(struct request *request, const char *what, struct log_field detail);
/* The change is durable. Does nothing without audit_expect(). */
void audit_done(struct request *request);

/* Logs the sums of suppressed lines once per minute. Call it about once a second, and at the end
 * with INT64_MAX. */
void audit_tick(int64_t now_ms);

#endif
