/* SPDX-License-Identifier: MIT */
/*
 * Lease events while the streams' mutex was held, logged after it is released: leases that expired,
 * and batches that were redelivered. At most 600 lines per minute, and the number of further ones.
 *
 * Lives on the stack of the function that holds the mutex; only `count` has to be initialized, to
 * 0.
 */
#ifndef SAMPLER_STREAM_LEASE_EVENTS_H
#define SAMPLER_STREAM_LEASE_EVENTS_H

#include "sampler/ledger/ledger.h"
#include "sampler/ledger/ledger_plan.h"

struct lease_event {
    char worker[WORKER_NAME_BYTES]; /* the holder, or the last one; "": none */
    char from[WORKER_NAME_BYTES];   /* redelivered: the previous holder; "": forgotten */
    int64_t seq;                    /* of `worker` */
    int64_t attempt;
    int64_t first;
    int64_t units;
    bool redelivered; /* else it expired */
};

#define LEASE_EVENTS_LIMIT (LEDGER_EXPIRE_AT_ONCE + 1)

struct lease_events {
    size_t count;
    struct lease_event events[LEASE_EVENTS_LIMIT];
};

/* Records those of the last ledger_expire(), as many as fit. */
void lease_events_expired(struct lease_events *events, const struct ledger *ledger);
/* Records what PLAN_REDELIVER is about to do. */
void lease_events_redelivered(struct lease_events *events, const struct ledger *ledger,
                              const struct ledger_plan *plan, const struct ledger_pull *pull);

/* Without the mutex. Also logs how many were suppressed before, so call it periodically. */
void lease_events_log(const struct lease_events *events, const char *stream);

#endif
