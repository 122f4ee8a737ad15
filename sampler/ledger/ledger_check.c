/* SPDX-License-Identifier: MIT */
/* Entries from a file may contain anything: checks which of them can follow the ledger's state. */
#include "sampler/ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

#include "sampler/order/batching.h"

static enum error refuse(const struct entry *entry, const char *why)
{
    return error_set(ERROR_INPUT, "a journal entry (kind %d, stream %" PRIu32 ") %s",
                     (int)entry->type, entry->stream, why);
}

static bool is_span(const struct entry *entry)
{
    return entry->first >= 0 && entry->first <= POSITION_LIMIT && entry->positions >= 0 &&
           entry->positions <= POSITION_LIMIT && entry->units >= 0 &&
           entry->units <= entry->positions;
}

static bool is_worker(const struct ledger *ledger, int64_t worker)
{
    return worker >= 0 && (uint64_t)worker < ledger->workers.count;
}

/* Pairs of begin and end, ascending, disjoint. */
static bool are_intervals(const struct entry *entry, int64_t after, int64_t end)
{
    if (entry->count % 2 != 0)
        return false;
    for (size_t i = 0; i < entry->count; i += 2) {
        if (entry->list[i] <= after || entry->list[i + 1] <= entry->list[i] ||
            entry->list[i + 1] > end)
            return false;
        after = entry->list[i + 1];
    }
    return true;
}

static bool is_new_name(const struct ledger *ledger, const struct entry *entry)
{
    char name[WORKER_NAME_BYTES];
    memcpy(name, entry->text, entry->text_bytes);
    name[entry->text_bytes] = '\0';
    return worker_name_is_valid(name) && worker_table_find(&ledger->workers, name) == WORKER_NONE;
}

static enum error check_worker(const struct ledger *ledger, const struct entry *entry)
{
    if (entry->text_bytes < 1 || entry->text_bytes >= WORKER_NAME_BYTES || entry->seq < 0 ||
        !is_new_name(ledger, entry))
        return refuse(entry, "does not name a new worker");
    if (entry->worker == -1)
        return OK;
    if (!is_worker(ledger, entry->worker) ||
        worker_table_get(&ledger->workers, (uint32_t)entry->worker)->leased > 0)
        return refuse(entry, "forgets a worker that is not known or has batches");
    return OK;
}

static enum error check_idle(const struct ledger *ledger, const struct entry *entry)
{
    for (size_t i = 0; i < entry->count; i++) {
        if (!is_worker(ledger, entry->list[i]))
            return refuse(entry, "names a worker that is not known");
    }
    return OK;
}

static enum error check_forgotten_workers(const struct entry *entry)
{
    bool sound = entry->count % 2 == 0 && entry->count / 2 <= FORGOTTEN_WORKERS_LIMIT;
    for (size_t i = 0; sound && i < entry->count; i += 2)
        sound = entry->list[i] >= 1 && entry->list[i + 1] >= 1;
    return sound ? OK : refuse(entry, "does not list workers that were forgotten");
}

static enum error check_pair(const struct ledger *ledger, const struct entry *entry)
{
    if (entry->worker == -1)
        return OK;
    if (!is_worker(ledger, entry->worker) || entry->seq < 0 || entry->asked < 1)
        return refuse(entry, "names a worker that is not known");
    return OK;
}

static enum error check_draw(const struct ledger *ledger, const struct entry *entry)
{
    if (!is_span(entry))
        return refuse(entry, "has a span out of range");
    int64_t end = entry->first + entry->positions;
    if (ledger->gaps.count > 0) {
        const struct interval *gap = intervals_at(&ledger->gaps, 0);
        if (entry->first != gap->begin || end > gap->end || entry->positions == 0)
            return refuse(entry, "draws new positions while others must be drawn first");
    } else if (entry->first < ledger->position) {
        return refuse(entry, "draws positions again");
    }
    if (entry->worker >= 0 && entry->units > 0 && is_worker(ledger, entry->worker) &&
        intervals_has(&worker_table_get(&ledger->workers, (uint32_t)entry->worker)->used,
                      entry->seq))
        return refuse(entry, "gives a seq a second batch");
    return check_pair(ledger, entry);
}

static enum error check_redraw(const struct ledger *ledger, const struct entry *entry)
{
    if (entry->first < 0 || lease_set_starting(&ledger->leases, entry->first) == LEASE_NONE)
        return refuse(entry, "redelivers a batch that is not leased");
    if (is_worker(ledger, entry->worker)) {
        uint32_t mine = lease_set_find(&ledger->leases, (uint32_t)entry->worker, entry->seq);
        bool used = intervals_has(
            &worker_table_get(&ledger->workers, (uint32_t)entry->worker)->used, entry->seq);
        if (used && mine != lease_set_starting(&ledger->leases, entry->first))
            return refuse(entry, "gives a seq a second batch");
    }
    return check_pair(ledger, entry);
}

static bool ends_behind(const struct ledger *ledger, uint32_t number, int64_t position)
{
    const struct lease *lease = lease_set_get(&ledger->leases, number);
    return lease->first + lease->positions > position;
}

static enum error check_lease(const struct ledger *ledger, const struct entry *entry)
{
    if (!is_span(entry) || entry->units < 1 || entry->attempt < 0 || entry->attempt > INT32_MAX ||
        entry->first + entry->positions > ledger->position)
        return refuse(entry, "has a lease out of range");
    uint32_t before = lease_set_before(&ledger->leases, entry->first + entry->positions);
    if (before != LEASE_NONE && ends_behind(ledger, before, entry->first))
        return refuse(entry, "leases positions twice");
    if (is_worker(ledger, entry->worker) &&
        lease_set_find(&ledger->leases, (uint32_t)entry->worker, entry->seq) != LEASE_NONE)
        return refuse(entry, "gives a seq a second batch");
    return check_pair(ledger, entry);
}

static enum error check_undo_draw(const struct ledger *ledger, const struct entry *entry)
{
    if (!is_span(entry) || entry->units < 1 || entry->attempt < 0 || entry->attempt > INT32_MAX ||
        entry->first + entry->positions > ledger->position ||
        lease_set_at(&ledger->leases, entry->first) != LEASE_NONE)
        return refuse(entry, "undoes what was not drawn");
    return OK;
}

enum error ledger_check(const struct ledger *ledger, const struct entry *entry)
{
    switch (entry->type) {
    case ENTRY_WORKER:
        return check_worker(ledger, entry);
    case ENTRY_DRAW:
        return check_draw(ledger, entry);
    case ENTRY_REDRAW:
        return check_redraw(ledger, entry);
    case ENTRY_ACK:
    case ENTRY_RELEASE:
    case ENTRY_USED:
    case ENTRY_ACKED:
        if (!is_worker(ledger, entry->worker))
            return refuse(entry, "names a worker that is not known");
        if (entry->type >= ENTRY_USED && !are_intervals(entry, -1, INT64_MAX))
            return refuse(entry, "has seqs out of range");
        return OK;
    case ENTRY_UNDO_DRAW:
        return check_undo_draw(ledger, entry);
    case ENTRY_SEEK:
    case ENTRY_RESTORE:
        if (entry->value < 0 || entry->value > POSITION_LIMIT ||
            !are_intervals(entry, -1, entry->value))
            return refuse(entry, "has a position out of range");
        return OK;
    case ENTRY_LEDGER:
        if (entry->count != 6 || entry->list[0] < 0 || entry->list[0] > POSITION_LIMIT)
            return refuse(entry, "is not a ledger's head");
        return OK;
    case ENTRY_GAPS:
        if (!are_intervals(entry, -1, ledger->position))
            return refuse(entry, "has gaps out of range");
        return OK;
    case ENTRY_SKIPPED:
        if (!are_intervals(entry, -1, ledger->position))
            return refuse(entry, "skips what is ahead");
        return OK;
    case ENTRY_LEASE:
        return check_lease(ledger, entry);
    case ENTRY_DONE:
        if (!is_span(entry) || !is_worker(ledger, entry->worker))
            return refuse(entry, "has a batch out of range");
        return OK;
    case ENTRY_IDLE:
        return check_idle(ledger, entry);
    case ENTRY_FORGOTTEN_WORKERS:
        return check_forgotten_workers(entry);
    default:
        return OK;
    }
}
