/* SPDX-License-Identifier: MIT */
/*
 * Decides from a ledger what a request becomes: which batch a pull gets, or which of a worker's
 * seqs may be acked. Changes nothing, except that batches whose deadline has passed move to the
 * queue.
 */
#ifndef SAMPLER_LEDGER_LEDGER_PLAN_H
#define SAMPLER_LEDGER_LEDGER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/ledger/ledger.h"
#include "sampler/order/batching.h"
#include "sampler/order/batching_search.h"

enum ledger_plan_kind {
    PLAN_KEPT,      /* the pair already has it */
    PLAN_REDELIVER, /* an expired or released one: ENTRY_REDRAW */
    PLAN_PIECE,     /* of a gap: ENTRY_DRAW */
    PLAN_NEW,       /* ENTRY_DRAW */
    PLAN_END /* none; the stream has ended. `span` moves it to its end if positions > 0 or first
              * differs from the position */
};

struct ledger_plan {
    enum ledger_plan_kind kind;
    struct span span;
    int64_t attempt;    /* its new one: 1 or more if it is or was leased, else 0 */
    uint32_t lease;     /* for PLAN_KEPT and PLAN_REDELIVER */
    int64_t expires_ms; /* PLAN_KEPT: time left */
    int64_t mean_ms;    /* for the entry's value; 0: unchanged */
};

/* How many positions a plan examines if units can only be counted: about 10 us. */
#define LEDGER_PLAN_POSITIONS 8192

/* What a GET /batch or POST /ack requests. */
struct ledger_pull {
    int64_t size;        /* at least 1; 0 for POST /ack */
    const char *worker;  /* a valid name; NULL: nothing is leased, the batch counts as done */
    int64_t seq;         /* at least 0 */
    const int64_t *acks; /* [ack_count]: this worker's, acked before the draw, all or none */
    size_t ack_count;
    bool has_acked; /* other seqs were already acked for it */
    int64_t room;   /* units that fit the buffer; an expired batch may exceed `size` */
};

/* The worker's number; WORKER_NONE: not known yet, or NULL. Callers that hold the mutex look the
 * name up once, here, and pass the number on. */
uint32_t ledger_worker(const struct ledger *ledger, const char *worker);

/* `worker` is ledger_worker(pull->worker); the pull's acks have been planned (ledger_plan_acks())
 * and count as applied. `search` is the ledger's, kept between plans. ERROR_CONFLICT, ERROR_USAGE,
 * ERROR_MEMORY (a worker's seqs) as stream_draw(); ERROR_TIMEOUT: only leased batches are left;
 * ERROR_UNAVAILABLE: the batch is longer than LEDGER_PLAN_POSITIONS: call
 * batching_search_run(search), and plan again. */
enum error ledger_plan_draw(struct ledger *ledger, const struct batching *batching,
                            struct batching_search *search, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms,
                            struct ledger_plan *ret_plan) MUST_CHECK;

/* ERROR_UNAVAILABLE, with the progress of the search. */
enum error ledger_plan_unfinished(const struct batching_search *search);

/* May the worker ack all of the pull's acks? ERROR_CONFLICT names the first that it may not.
 * *ret_live: how many are not acked yet; *ret_mean_ms: as in the plan. */
enum error ledger_plan_acks(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms, size_t *ret_live,
                            int64_t *ret_mean_ms) MUST_CHECK;

/* May the pull's pair get a batch, its own or a new one, regardless of its acks? ERROR_CONFLICT and
 * ERROR_MEMORY as ledger_plan_draw(), except that the stream may be paused or exhausted. */
enum error ledger_plan_pair(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms) MUST_CHECK;

/* Does the worker hold all of the pull's acks now, so that they can be extended? ERROR_CONFLICT. */
enum error ledger_plan_extend(const struct ledger *ledger, const struct ledger_pull *pull,
                              uint32_t worker) MUST_CHECK;

#endif
