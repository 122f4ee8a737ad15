/* SPDX-License-Identifier: MIT */
/*
 * Helpers that route handlers share: queries without parameters, JSON bodies, streams by name,
 * changes that wait for the disk, work for the thread pools.
 */
#ifndef SAMPLER_API_HANDLER_H
#define SAMPLER_API_HANDLER_H

#include <stdbool.h>

#include "common/error.h"
#include "common/http/request.h"
#include "sampler/api/api_request.h"
#include "sampler/api/json_body.h"
#include "sampler/service/service.h"

/* The most streams that an HTTP thread reports on by itself; more would block it for too long. */
#define HANDLER_STREAMS_AT_ONCE 100

/* Fails if the query has parameters. */
enum error handler_refuse_query(const struct request *request) MUST_CHECK;
/* ERROR_NOT_FOUND naming it; ERROR_UNAVAILABLE: it is set aside (streams.h), and why. The request
 * puts the stream when it ends. */
enum error handler_take_stream(struct request *request, const struct service *service,
                               const char *name) MUST_CHECK;

/* Reads the body of a POST without parameters: `read` takes what the handler needs from it (in a
 * thread pool if it is long), then `then` gets the result from api_request_outcome(). */
enum MHD_Result handler_read_body(struct request *request, struct service *service,
                                  bool may_be_empty, api_reader read, request_continuation then);

/* A name of a stream or a frame. ERROR_INPUT: another text, or it is missing and `fallback` is
 * NULL. */
enum error handler_read_name(struct body *body, const char *field, const char *fallback,
                             char ret_name[STREAM_NAME_BYTES]) MUST_CHECK;

/* Ends a call that may wait (`waits`, as it reported): if it is OK and durable, `respond` answers
 * (and it is logged if audit_expect() was called); otherwise responds with the call's message, or
 * that of the failing disk. */
enum MHD_Result handler_finish(struct request *request, struct service *service, enum error error,
                               bool waits, request_continuation respond);

/* Lets the response to work that has ended with `error` wait like an ack of nothing, also to a
 * conflict: what that rests on may not be kept. Returns `error`, or the ack's. */
enum error handler_wait_as_ack(struct request *request, const char *worker, enum error error,
                               bool *ret_wait) MUST_CHECK;

/* Runs `task` in a thread pool, then calls `again`, which gets the result from
 * api_request_outcome(); 503 if the pool is full. */
enum MHD_Result handler_run_slowly(struct request *request, api_task task,
                                   request_continuation again);
/* The same for searches that may take many seconds: they delay only each other. */
enum MHD_Result handler_search(struct request *request, api_task task, request_continuation again);
/* Responds with the JSON that `task` adds to request->body; in a thread pool if it is long. */
enum MHD_Result handler_respond_text(struct request *request, api_task task, bool is_long);

#endif
