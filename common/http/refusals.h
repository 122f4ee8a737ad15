/* SPDX-License-Identifier: MIT */
/*
 * What the log says of requests without the right token: never the token, but its name in
 * --token-file. Whoever has none can cause lines too: so one line and a sum a minute, 401 and 403
 * apart.
 *
 * Threads: any.
 */
#ifndef COMMON_HTTP_REFUSALS_H
#define COMMON_HTTP_REFUSALS_H

#include <stdint.h>

#include "common/http/request.h"

/* The request is answered with this status, 401 or 403. */
void refusals_log(struct request *request, int status, const char *reason);

/* Writes the sums of what was held back, when a minute is over. Once a second or so; at the end
 * with INT64_MAX. */
void refusals_tick(int64_t now_ms);

#endif
