/* SPDX-License-Identifier: MIT */
/*
 * The sampler's latest response by index, from which batches are taken in turn. One thread.
 */
#ifndef LOADER_FEED_PULL_ANSWER_H
#define LOADER_FEED_PULL_ANSWER_H

#include "loader/feed/pull_plan.h"
#include "loader/feed/puller_private.h"

/* Zeroed: none. */
struct pull_answer {
    struct pull_request request;
    struct sampler_batch batch; /* the client's memory, valid until its next request for one */
    bool there;
};

/* The response that holds batch puller->next_index, after its first request.skip_rows units.
 * ERROR_END: the stream has no such batch. ERROR_CONFLICT: the stream has changed. */
enum error pull_answer_get(struct pull_answer *answer, struct pull_connection *connection,
                           struct pull_plan *plan) MUST_CHECK;

#endif
