/* SPDX-License-Identifier: MIT */
/*
 * Logs requests without the right token: never the token, only its name in --token-file. Since
 * anyone can cause such lines, at most one line and one count per minute are written, separately
 * for 401 and 403.
 *
 * Any thread.
 */
#ifndef COMMON_HTTP_REFUSALS_H
#define COMMON_HTTP_REFUSALS_H

#include <stdint.h>

#include "common/http/request.h"

/* The request is answered with this status, 401 or 403. */
void refusals_log(struct request *request, int status, const char *reason);

/* Logs the counts of suppressed lines when a minute is over. Call about once a second; at the end
 * with INT64_MAX. */
void refusals_tick(int64_t now_ms);

#endif
