/* SPDX-License-Identifier: MIT */
/*
 * What handlers of routes have in common: queries without parameters, JSON bodies, streams by name,
 * changes that wait for the disk, work for the thread pools.
 */
#ifndef SAMPLER_API_HANDLER_H
#define SAMPLER_API_HANDLER_H

#include <stdbool.h>

#include "common/error.h"
#include "common/http/request.h"
#include "common/uri.h"
#include "sampler/api/api_request.h"
#include "sampler/api/json_body.h"
#include "sampler/service/service.h"

/* Of which something is said in a response; more take longer than an HTTP thread should be kept. */
#define HANDLER_STREAMS_AT_ONCE 100

/* The query has no parameter. */
enum error handler_refuse_query(const struct request *request) MUST_CHECK;
/* The parameter `stream` of a query (default: "default") into `ret_name`. */
enum error handler_stream_name(struct uri_query *query,
                               char ret_name[STREAM_NAME_BYTES]) MUST_CHECK;
/* ERROR_NOT_FOUND naming it. The request gives the stream back at its end. */
enum error handler_take_stream(struct request *request, const struct service *service,
                               const char *name) MUST_CHECK;

/* The body of a POST without parameters: `read` takes from it what the handler keeps (a long one
 * in a thread pool), and `then` finds how that ended by api_request_outcome(). */
enum MHD_Result handler_read_body(struct request *request, struct service *service,
                                  bool may_be_empty, api_reader read, request_continuation then);

/* How a call that may wait ended (`waits`, as it said): answered by `respond` when it is OK and
 * kept (and logged, when audit_expect() was called); with the call's message, or the one of the
 * failing disk, when it is not. */
enum MHD_Result handler_finish(struct request *request, struct service *service, enum error error,
                               bool waits, request_continuation respond);

/* Has `task` done in a thread pool and then goes on in `again`, which finds how it ended by
 * api_request_outcome(); 503 when the pool is full. */
enum MHD_Result handler_run_slowly(struct request *request, api_task task,
                                   request_continuation again);
/* The same for what may take many seconds: only others of its kind wait for it. */
enum MHD_Result handler_search(struct request *request, api_task task, request_continuation again);
/* Responds with the JSON that `task` adds to request->body; in a thread pool if it is long. */
enum MHD_Result handler_respond_text(struct request *request, api_task task, bool is_long);

#endif
