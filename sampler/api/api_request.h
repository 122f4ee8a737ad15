/* SPDX-License-Identifier: MIT */
/*
 * The sampler's part of a request: its stream, the handler's state while the connection is
 * suspended, and the batch to be sent.
 *
 * Threads: as struct request.
 */
#ifndef SAMPLER_API_API_REQUEST_H
#define SAMPLER_API_API_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/http/request.h"
#include "common/log.h"
#include "sampler/api/json_body.h"
#include "sampler/batch/batch_request.h"
#include "sampler/journal/journal_waiter.h"
#include "sampler/stream/stream.h"

/* Work for a thread pool. `stop`: the server is shutting down. */
typedef enum error (*api_task)(struct request *request, const _Atomic bool *stop);

/* Takes what the handler needs from a body, which is closed afterwards. */
typedef enum error (*api_reader)(struct request *request, struct body *body);

struct api_request {
    struct stream *stream; /* taken: api_request_release() puts it */

    /* While the connection is suspended. */
    request_continuation then; /* of handler_finish() */
    struct journal_waiter waiter;
    struct request *waiting;                  /* the owner of `waiter` */
    void *work;                               /* handler state that outlives a suspension */
    void (*release)(struct request *request); /* NULL, or frees `work` */
    api_task task;                            /* of handler_run_slowly() */
    api_reader read;                          /* of handler_read_body() */
    bool body_may_be_empty;
    enum error outcome; /* the result when the connection resumes */

    /* For the audit log (audit.h). */
    const char *change; /* NULL: nothing is logged */
    struct log_field change_detail;

    /* GET /batch */
    struct batch_request batch;
    enum batch_format format;
    struct stream_batch drawn; /* the first, if there are several */
    size_t drawn_count;        /* number of batches drawn */
    uint64_t drawn_units;      /* in all of them */

    /* Not cleared between requests: */
    char changer[TOKEN_NAME_BYTES]; /* if there is a `change`; "": no token was required */
    struct batch_lease lease;       /* if batch.leased or .named */
    struct error_report report;     /* the message of `outcome`, if it came from another thread */
};
#define API_REQUEST_CLEARED_BYTES offsetof(struct api_request, changer)

/* At the request's end. */
void api_request_release(struct request *request);

/* A `release` that frees `work`. */
void api_request_free_work(struct request *request);

/* Sets the outcome of its work, with the message, for the thread that resumes the request. */
void api_request_settle(struct request *request, enum error outcome);
enum error api_request_outcome(const struct request *request) MUST_CHECK;

/* Counts the request with its stream, if there is room for that. */
void api_request_count(struct request *request);

/* The waiter for a call that may have to wait; if it does, call request_wait(). */
struct journal_waiter *api_request_waiter(struct request *request);

#endif
