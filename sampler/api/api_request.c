/* SPDX-License-Identifier: MIT */
#include "sampler/api/api_request.h"

#include <stdlib.h>

void api_request_release(struct request *request)
{
    struct api_request *api = request->api;
    if (api->release)
        api->release(request);
    if (api->stream)
        stream_put(api->stream);
}

void api_request_free_work(struct request *request)
{
    free(request->api->work);
}

void api_request_settle(struct request *request, enum error outcome)
{
    request->api->outcome = outcome;
    if (outcome)
        error_report_take(outcome, &request->api->report);
}

enum error api_request_outcome(const struct request *request)
{
    return request->api->outcome ? error_restore(&request->api->report) : OK;
}

void api_request_count(struct request *request)
{
    struct stream *stream = request->api->stream;
    struct metrics *block =
        stream ? metrics_block(stream_metrics(stream), request->thread->number) : NULL;
    if (block)
        request->metrics = block;
}

static void on_ready(struct journal_waiter *waiter)
{
    struct api_request *api =
        (struct api_request *)((char *)waiter - offsetof(struct api_request, waiter));
    request_pass(api->waiting);
}

struct journal_waiter *api_request_waiter(struct request *request)
{
    struct api_request *api = request->api;
    request_gate(request);
    api->waiting = request;
    api->waiter = (struct journal_waiter){.ready = on_ready};
    return &api->waiter;
}
