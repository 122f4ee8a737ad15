/* SPDX-License-Identifier: MIT */
/*
 * The sampler's latest answer to a request by index, of which one batch after the other is taken.
 * One thread.
 */
#ifndef LOADER_FEED_PULL_ANSWER_H
#define LOADER_FEED_PULL_ANSWER_H

#include "loader/feed/pull_plan.h"
#include "loader/feed/puller_private.h"

/* Zeroed: there is none. */
struct pull_answer {
    struct pull_request request;
    struct sampler_batch batch; /* the client's memory, valid until it is asked for another */
    bool there;
};

/* The answer that holds batch puller->next_index, behind request.skip_rows units of it. ERROR_END:
 * the stream has no such batch. ERROR_CONFLICT: the stream is another one than it was. */
enum error pull_answer_get(struct pull_answer *answer, struct pull_connection *connection,
                           struct pull_plan *plan) MUST_CHECK;

#endif
