/* SPDX-License-Identifier: MIT */
/*
 * What happened to leases while the streams' mutex was held, to be logged when it is free again:
 * leases that expired, and batches that were redelivered. At most 600 lines a minute, and the
 * number of those beyond.
 *
 * A value on the stack of whoever holds the mutex; only `count` has to be set, to 0.
 */
#ifndef SAMPLER_STREAM_LEASE_EVENTS_H
#define SAMPLER_STREAM_LEASE_EVENTS_H

#include "sampler/ledger/ledger.h"
#include "sampler/ledger/ledger_plan.h"

struct lease_event {
    char worker[WORKER_NAME_BYTES]; /* the holder, or the last one; "": none */
    char from[WORKER_NAME_BYTES];   /* redelivered: the holder before; "": forgotten */
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

/* Those of the last ledger_expire(), as many as there is room for. */
void lease_events_expired(struct lease_events *events, const struct ledger *ledger);
/* What PLAN_REDELIVER is about to do. */
void lease_events_redelivered(struct lease_events *events, const struct ledger *ledger,
                              const struct ledger_plan *plan, const struct ledger_pull *pull);

/* Without the mutex. Also logs how many were held back before, so call it now and then. */
void lease_events_log(const struct lease_events *events, const char *stream);

#endif
