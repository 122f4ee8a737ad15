/* SPDX-License-Identifier: MIT */
/*
 * What a request becomes: reads a ledger and says which batch a pull gets, or which of a worker's
 * seqs may be acked. Nothing moves, except that batches whose deadline has passed wait.
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
    PLAN_KEPT,      /* the pair has it already */
    PLAN_REDELIVER, /* one that expired or was released: ENTRY_REDRAW */
    PLAN_PIECE,     /* of a gap: ENTRY_DRAW */
    PLAN_NEW,       /* ENTRY_DRAW */
    PLAN_END /* none; the stream has ended. `span` moves it to its end, where positions > 0 or
                   first is not the position */
};

struct ledger_plan {
    enum ledger_plan_kind kind;
    struct span span;
    int64_t attempt;    /* that it will have: 1 and more for what is leased or was, else 0 */
    uint32_t lease;     /* of PLAN_KEPT and PLAN_REDELIVER */
    int64_t expires_ms; /* PLAN_KEPT: time left */
    int64_t mean_ms;    /* for the entry's value; 0: as it was */
};

/* Positions that a plan looks at, where units can only be counted: some 10 us. */
#define LEDGER_PLAN_POSITIONS 8192

/* What a GET /batch or POST /ack asks for. */
struct ledger_pull {
    int64_t size;       /* at least 1; of POST /ack 0 */
    const char *worker; /* a valid name; NULL: nothing is leased, the batch is done when answered */
    int64_t seq;        /* at least 0 */
    const int64_t *acks; /* [ack_count]: this worker's, acked before the draw, all or none */
    size_t ack_count;
    bool has_acked; /* others were acked for it already */
    int64_t room;   /* units that the caller can take; an expired batch may hold more than `size` */
};

/* The worker's number; WORKER_NONE: it is not known yet, or NULL. The one look-up of a name: who
 * holds the mutex asks once and hands the number on. */
uint32_t ledger_worker(const struct ledger *ledger, const char *worker);

/* `worker` is ledger_worker(pull->worker); the pull's acks were planned (ledger_plan_acks()), and
 * count as if they were applied. `search` is the ledger's, kept from plan to plan. ERROR_CONFLICT,
 * ERROR_USAGE, ERROR_MEMORY (a worker's seqs) as stream_draw(); ERROR_TIMEOUT: only leased batches
 * are left; ERROR_UNAVAILABLE: the batch is longer than LEDGER_PLAN_POSITIONS.
 * batching_search_run(search), and plan again. */
enum error ledger_plan_draw(struct ledger *ledger, const struct batching *batching,
                            struct batching_search *search, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms,
                            struct ledger_plan *ret_plan) MUST_CHECK;

/* ERROR_UNAVAILABLE, with how far the search has got. */
enum error ledger_plan_unfinished(const struct batching_search *search);

/* Are all of the pull's acks its worker's to give? ERROR_CONFLICT names the first that is not.
 * *ret_live: how many are not acked yet; *ret_mean_ms: as in the plan. */
enum error ledger_plan_acks(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms, size_t *ret_live,
                            int64_t *ret_mean_ms) MUST_CHECK;

/* May the pull's pair get a batch, its own or another one, its acks left aside? ERROR_CONFLICT and
 * ERROR_MEMORY as ledger_plan_draw(), but for a stream that is paused or has nothing left. */
enum error ledger_plan_pair(const struct ledger *ledger, const struct ledger_pull *pull,
                            uint32_t worker, int64_t now_ms) MUST_CHECK;

/* Are all of the pull's acks its worker's now, to be extended? ERROR_CONFLICT. */
enum error ledger_plan_extend(const struct ledger *ledger, const struct ledger_pull *pull,
                              uint32_t worker) MUST_CHECK;

#endif
