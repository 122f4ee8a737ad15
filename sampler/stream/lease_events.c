/* SPDX-License-Identifier: MIT */
#include "sampler/stream/lease_events.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"

#define LINES_A_MINUTE 600

static struct log_limit lines = LOG_LIMIT_INIT(LINES_A_MINUTE);

static void copy_name(const struct ledger *ledger, uint32_t worker, char out[WORKER_NAME_BYTES])
{
    const char *name =
        worker == WORKER_NONE ? "" : worker_table_get(&ledger->workers, worker)->name;
    memcpy(out, name, strlen(name) + 1);
}

static struct lease_event *add(struct lease_events *events, const struct lease *lease)
{
    struct lease_event *event = &events->events[events->count++];
    event->first = lease->first;
    event->units = lease->units;
    event->seq = lease->seq;
    event->attempt = lease->attempt;
    event->redelivered = false;
    event->worker[0] = '\0';
    event->from[0] = '\0';
    return event;
}

void lease_events_expired(struct lease_events *events, const struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->expired_count && events->count < LEASE_EVENTS_LIMIT; i++) {
        const struct lease *lease = lease_set_get(&ledger->leases, ledger->expired[i]);
        copy_name(ledger, lease->worker, add(events, lease)->worker);
    }
}

void lease_events_redelivered(struct lease_events *events, const struct ledger *ledger,
                              const struct ledger_plan *plan, const struct ledger_pull *pull)
{
    if (events->count == LEASE_EVENTS_LIMIT)
        return;
    const struct lease *lease = lease_set_get(&ledger->leases, plan->lease);
    struct lease_event *event = add(events, lease);
    event->redelivered = true;
    event->attempt = plan->attempt;
    event->seq = pull->seq;
    copy_name(ledger, lease->worker, event->from);
    if (pull->worker)
        memcpy(event->worker, pull->worker, strlen(pull->worker) + 1);
}

static const char *unless_empty(const char *text)
{
    return text[0] ? text : NULL;
}

static void log_one(const struct lease_event *event, const char *stream)
{
    const char *worker = unless_empty(event->worker);
    struct log_field fields[] = {log_text("stream", stream),
                                 log_text("worker", worker),
                                 log_number("seq", event->seq),
                                 log_number("attempt", event->attempt),
                                 log_number("first", event->first),
                                 log_number("size", event->units),
                                 log_text("from", unless_empty(event->from)),
                                 {.key = NULL}};
    if (!worker)
        fields[2] = log_text("seq", NULL);
    if (event->redelivered)
        log_fields(LOG_INFO, "batch redelivered", fields);
    else
        log_fields(LOG_WARNING, "lease expired", fields);
}

void lease_events_log(const struct lease_events *events, const char *stream)
{
    int64_t now_ms = clock_now_ns() / 1000000;
    int64_t held = log_limit_take(&lines, now_ms);
    if (held > 0)
        log_event(LOG_WARNING, "more leases expired or were redelivered", log_number("count", held),
                  log_number("seconds", LOG_LIMIT_SECONDS));
    for (size_t i = 0; i < events->count; i++) {
        if (log_limit_pass(&lines, now_ms))
            log_one(&events->events[i], stream);
    }
}
