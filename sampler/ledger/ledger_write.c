/* SPDX-License-Identifier: MIT */
/* A ledger as entries: the start of a compacted journal. */
#include "sampler/ledger/ledger.h"

#include "sampler/ledger/ledger_past.h"

#define LIST_AT_ONCE 4096 /* intervals per entry */

struct writing {
    uint32_t stream;
    enum error (*add)(void *context, const struct entry *entry);
    void *context;
    enum error error;
};

static void write_entry(struct writing *writing, struct entry entry)
{
    entry.stream = writing->stream;
    if (!writing->error)
        writing->error = writing->add(writing->context, &entry);
}

static void write_intervals(struct writing *writing, const struct intervals *intervals,
                            struct entry entry)
{
    int64_t list[2 * LIST_AT_ONCE];
    for (size_t i = 0; i < intervals->count;) {
        size_t count = 0;
        for (; i < intervals->count && count < 2 * LIST_AT_ONCE; i++) {
            list[count++] = intervals_at(intervals, i)->begin;
            list[count++] = intervals_at(intervals, i)->end;
        }
        entry.list = list;
        entry.count = count;
        write_entry(writing, entry);
    }
}

/* Includes what an unsettled seek left, merged here even if another thread is merging it. */
static void write_skipped(struct writing *writing, const struct ledger *ledger)
{
    const struct entry entry = {.type = ENTRY_SKIPPED, .worker = -1};
    struct intervals merged = {0};
    if (ledger->past && !writing->error) {
        writing->error = intervals_reserve(&merged, ledger_past_spans(ledger->past));
        if (!writing->error)
            ledger_past_merge(ledger->past, &merged);
    }
    write_intervals(writing, &merged, entry);
    write_intervals(writing, &ledger->skipped, entry);
    intervals_release(&merged);
}

static void write_worker(struct writing *writing, const struct worker_record *record,
                         int64_t number)
{
    size_t length = 0;
    while (record->name[length])
        length++;
    write_entry(writing, (struct entry){.type = ENTRY_WORKER,
                                        .worker = -1,
                                        .seq = record->forgotten_below,
                                        .text = record->name,
                                        .text_bytes = length});
    write_intervals(writing, &record->used,
                    (struct entry){.type = ENTRY_USED,
                                   .worker = number,
                                   .value = record->done,
                                   .attempt = record->redelivered});
    write_intervals(writing, &record->acked, (struct entry){.type = ENTRY_ACKED, .worker = number});
}

/* In the order in which they will be forgotten. */
static void write_idle(struct writing *writing, const struct worker_table *workers)
{
    int64_t list[LIST_AT_ONCE];
    const struct worker_record *record = workers->idle.first;
    while (record) {
        size_t count = 0;
        for (; record && count < LIST_AT_ONCE; record = record->after)
            list[count++] = record->number;
        write_entry(writing,
                    (struct entry){.type = ENTRY_IDLE, .worker = -1, .list = list, .count = count});
    }
}

static void write_forgotten(struct writing *writing, const struct forgotten_set *set, bool older)
{
    int64_t list[2 * LIST_AT_ONCE];
    for (size_t written = 0; written < set->count;) {
        size_t count = 0;
        for (; written < set->count && count < 2 * LIST_AT_ONCE; written++) {
            list[count++] = set->workers[written].name;
            list[count++] = set->workers[written].below;
        }
        write_entry(writing, (struct entry){.type = ENTRY_FORGOTTEN_WORKERS,
                                            .worker = -1,
                                            .value = older && written == set->count,
                                            .list = list,
                                            .count = count});
    }
}

static void write_lease(void *context, const struct lease *lease)
{
    bool owned = lease->worker != WORKER_NONE;
    write_entry(context, (struct entry){
                             .type = ENTRY_LEASE,
                             .first = lease->first,
                             .positions = lease->positions,
                             .units = lease->units,
                             .asked = owned ? lease->asked : 0,
                             .worker = owned ? (int64_t)lease->worker : -1,
                             .seq = owned ? lease->seq : 0,
                             .attempt = lease->attempt,
                         });
}

static void write_owned(void *context, const struct lease *lease)
{
    if (lease->worker != WORKER_NONE)
        write_lease(context, lease);
}

/* Those without a worker, in queue order. */
static void write_released(struct writing *writing, const struct lease_set *set)
{
    for (uint32_t number = lease_set_waiting(set); number != LEASE_NONE;) {
        const struct lease *lease = lease_set_get(set, number);
        if (lease->worker == WORKER_NONE)
            write_lease(writing, lease);
        number = lease->links[LEASE_QUEUE].after;
    }
}

static void write_history(struct writing *writing, const struct ledger *ledger)
{
    const struct lease_history *history = &ledger->history;
    for (size_t i = 0; i < lease_history_kept(history); i++) {
        const struct lease_done *done = lease_history_at(history, i);
        if (lease_history_before(history, done) <
            worker_table_get(&ledger->workers, done->worker)->done_since)
            continue; /* its worker is forgotten */
        write_entry(writing, (struct entry){
                                 .type = ENTRY_DONE,
                                 .first = done->first,
                                 .positions = done->positions,
                                 .units = done->positions,
                                 .worker = done->worker,
                                 .seq = done->seq,
                                 .attempt = done->attempt,
                             });
    }
}

enum error ledger_write(const struct ledger *ledger, uint32_t stream,
                        enum error (*add)(void *context, const struct entry *entry), void *context)
{
    struct writing writing = {.stream = stream, .add = add, .context = context};
    int64_t head[] = {ledger->position,    ledger->paused, ledger->acked,
                      ledger->redelivered, ledger->handed, ledger->mean_ms};
    write_entry(&writing, (struct entry){.type = ENTRY_LEDGER,
                                         .worker = -1,
                                         .list = head,
                                         .count = sizeof(head) / sizeof(head[0])});
    write_intervals(&writing, &ledger->gaps, (struct entry){.type = ENTRY_GAPS, .worker = -1});
    write_skipped(&writing, ledger);
    for (size_t i = 0; i < ledger->workers.count; i++)
        write_worker(&writing, ledger->workers.records[i], (int64_t)i);
    write_idle(&writing, &ledger->workers);
    write_forgotten(&writing, &ledger->workers.forgotten.older, true);
    write_forgotten(&writing, &ledger->workers.forgotten.newer, false);
    lease_set_each(&ledger->leases, write_owned, &writing);
    write_released(&writing, &ledger->leases);
    write_history(&writing, ledger);
    return writing.error;
}
