/* SPDX-License-Identifier: MIT */
/*
 * Routes a request: limits, token, path, method, scope, the server's phase, then the route's
 * handler. A request with a body goes through all but the phase before anything of the body is
 * kept, and once more when it is there: a token may have been withdrawn in between.
 *
 * Threads: the request's HTTP thread.
 */
#ifndef COMMON_HTTP_DISPATCH_H
#define COMMON_HTTP_DISPATCH_H

#include <microhttpd.h>
#include <stdbool.h>

#include "common/http/request.h"

/* The header of a request with a body is there. One that is refused hears it once its body was
 * swallowed, which keeps the connection; one that `expects` 100 first hears it at once. */
enum MHD_Result dispatch_header(struct request *request, bool expects);
/* Answers, or suspends the connection; called again when it goes on. */
enum MHD_Result dispatch(struct request *request);
/* For a handler of an open route that does ask for a token now and then; false: *ret_refusal was
 * answered. */
bool dispatch_lets_in(struct request *request, int scopes, enum MHD_Result *ret_refusal);

#endif
