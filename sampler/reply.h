/*
 * Answers: each function queues one response for the request and notes what the counters want.
 * Texts are copied. All return what an MHD handler returns.
 */
#ifndef SAMPLER_REPLY_H
#define SAMPLER_REPLY_H

#include <microhttpd.h>

#include "common/buffer.h"
#include "sampler/request.h"

struct reply_header {
    const char *name;
    const char *value;
};

/* request->output (taken) as a 200 with `headers` besides Content-Type. */
enum MHD_Result reply_output(struct request *request, const char *content_type,
                             const struct reply_header *headers, size_t header_count);
/* The buffer's memory is taken; it is empty afterwards. */
enum MHD_Result reply_buffer(struct request *request, const char *content_type,
                             struct buffer *buffer);
/* A status with no body: 204. */
enum MHD_Result reply_empty(struct request *request, int status);
/* OPTIONS: 204 with Allow. */
enum MHD_Result reply_allow(struct request *request);
/* application/problem+json. 405 gets Allow, 503 Retry-After. */
enum MHD_Result reply_problem(struct request *request, int status, const char *detail);
/* This thread's message, with the status that belongs to the code. */
enum MHD_Result reply_error(struct request *request, enum error error);

#endif
