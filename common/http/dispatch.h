/* SPDX-License-Identifier: MIT */
/*
 * Routes a complete request: limits, token, path, method, scope, the server's phase, then the
 * route's handler.
 *
 * Threads: the request's HTTP thread.
 */
#ifndef COMMON_HTTP_DISPATCH_H
#define COMMON_HTTP_DISPATCH_H

#include <microhttpd.h>
#include <stdbool.h>

#include "common/http/request.h"

/* Answers, or suspends the connection; called again when it goes on. */
enum MHD_Result dispatch(struct request *request, const char *method);
/* For a handler of an open route that does ask for a token now and then; false: *ret_refusal was
 * answered. */
bool dispatch_lets_in(struct request *request, int scopes, enum MHD_Result *ret_refusal);

#endif
