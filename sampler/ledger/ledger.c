/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/ledger.h"

#include "sampler/ledger/ledger_listing.h"
#include "sampler/ledger/ledger_past.h"
#include "sampler/ledger/ledger_skipped.h"

#define ACKED_AT_ONCE 256 /* seqs of an ack that are merged into intervals together */

void ledger_init(struct ledger *ledger)
{
    *ledger = (struct ledger){0};
    lease_set_init(&ledger->leases);
}

void ledger_release(struct ledger *ledger)
{
    intervals_release(&ledger->gaps);
    intervals_release(&ledger->skipped);
    intervals_release(&ledger->room);
    lease_set_release(&ledger->leases);
    worker_table_release(&ledger->workers);
    lease_history_release(&ledger->history);
}

enum error ledger_begin(struct ledger *ledger, int64_t position)
{
    enum error error = ledger_skipped_reserve(ledger);
    if (error)
        return error;
    if (position > 0)
        ledger_skipped_add(ledger, 0, position);
    ledger->position = position;
    return OK;
}

int64_t ledger_lease_ms(const struct ledger *ledger)
{
    if (ledger->lease_ms > 0)
        return ledger->lease_ms;
    int64_t wanted_ms = 2 * ledger->mean_ms;
    if (wanted_ms < LEDGER_LEASE_LEAST_MS)
        return LEDGER_LEASE_LEAST_MS;
    return wanted_ms > LEDGER_LEASE_MOST_MS ? LEDGER_LEASE_MOST_MS : wanted_ms;
}

void ledger_start(struct ledger *ledger, int64_t now_ms)
{
    int64_t deadline_ms = now_ms + ledger_lease_ms(ledger);
    ledger->samples = ledger->mean_ms > 0 ? LEDGER_MEAN_SAMPLES : 0;
    for (size_t i = 0; i < ledger->leases.heap_count; i++) { /* all equal: any order is a heap */
        struct lease *lease = lease_set_get(&ledger->leases, ledger->leases.heap[i]);
        lease->leased_ms = -1;
        lease->deadline_ms = deadline_ms;
    }
}

void ledger_expire(struct ledger *ledger, int64_t now_ms)
{
    ledger->expired_count = 0;
    while (ledger->expired_count < LEDGER_EXPIRE_AT_ONCE) {
        uint32_t number = lease_set_earliest(&ledger->leases);
        if (number == LEASE_NONE || lease_set_get(&ledger->leases, number)->deadline_ms > now_ms)
            return;
        lease_set_wait(&ledger->leases, number);
        ledger->expired[ledger->expired_count++] = number;
    }
}

/* ---- memory ------------------------------------------------------------- */

static enum error prepare_lease(struct ledger *ledger, int64_t worker)
{
    if (worker < 0)
        return OK;
    enum error error = lease_set_reserve(&ledger->leases);
    if (!error)
        error = intervals_reserve(&worker_table_get(&ledger->workers, (uint32_t)worker)->used, 1);
    return error;
}

static enum error prepare_worker(struct ledger *ledger, const struct entry *entry)
{
    uint32_t number = entry->worker < 0 ? (uint32_t)ledger->workers.count : (uint32_t)entry->worker;
    return worker_table_add(&ledger->workers, number, entry->text, entry->text_bytes, entry->seq,
                            ledger->history.count);
}

static enum error prepare_acks(struct ledger *ledger, const struct entry *entry)
{
    struct worker_record *record = worker_table_get(&ledger->workers, (uint32_t)entry->worker);
    enum error error = ledger_listing_reserve(ledger, entry->count);
    if (!error)
        error = intervals_reserve(&record->acked, entry->count);
    return error ? error : lease_history_reserve(&ledger->history, entry->count);
}

enum error ledger_prepare(struct ledger *ledger, const struct entry *entry)
{
    struct worker_record *record;
    enum error error;
    switch (entry->type) {
    case ENTRY_WORKER:
        return prepare_worker(ledger, entry);
    case ENTRY_DRAW:
        error = ledger_skipped_reserve(ledger);
        if (!error)
            error = ledger_listing_reserve(ledger, 1);
        return error ? error : prepare_lease(ledger, entry->worker);
    case ENTRY_REDRAW:
        error = ledger_listing_reserve(ledger, 1);
        return error ? error : prepare_lease(ledger, entry->worker);
    case ENTRY_ACK:
        return prepare_acks(ledger, entry);
    case ENTRY_UNDO_DRAW:
        error = intervals_reserve(&ledger->gaps, 1);
        return error ? error : lease_set_reserve(&ledger->leases);
    case ENTRY_LEASE:
        error = lease_set_reserve(&ledger->leases);
        return error ? error : prepare_lease(ledger, entry->worker);
    case ENTRY_SEEK:
        return ledger_past_reserve(ledger);
    case ENTRY_SKIPPED:
        return intervals_reserve(&ledger->skipped, entry->count / 2);
    case ENTRY_RESTORE:
        return ledger->past ? OK : intervals_reserve(&ledger->room, entry->count / 2);
    case ENTRY_GAPS:
        return intervals_reserve(&ledger->gaps, entry->count / 2);
    case ENTRY_USED:
    case ENTRY_ACKED:
        record = worker_table_get(&ledger->workers, (uint32_t)entry->worker);
        return intervals_reserve(entry->type == ENTRY_USED ? &record->used : &record->acked,
                                 entry->count / 2);
    case ENTRY_DONE:
        return lease_history_reserve(&ledger->history, 1);
    case ENTRY_FORGOTTEN_WORKERS:
        return forgotten_workers_reserve(&ledger->workers.forgotten, entry->count / 2);
    default:
        return OK;
    }
}

/* ---- applying ----------------------------------------------------------- */

static void disown(struct ledger *ledger, uint32_t number)
{
    uint32_t worker = lease_set_get(&ledger->leases, number)->worker;
    if (worker == WORKER_NONE)
        return;
    lease_set_disown(&ledger->leases, number, &worker_table_get(&ledger->workers, worker)->leases);
    worker_table_disown(&ledger->workers, worker);
}

static void lease_to(struct ledger *ledger, uint32_t number, const struct entry *entry,
                     int64_t now_ms)
{
    uint32_t worker = (uint32_t)entry->worker;
    struct worker_record *record = worker_table_get(&ledger->workers, worker);
    lease_set_get(&ledger->leases, number)->asked = entry->asked;
    lease_set_assign(&ledger->leases, number, worker, entry->seq, &record->leases);
    lease_set_start(&ledger->leases, number, now_ms, now_ms + ledger_lease_ms(ledger));
    intervals_add(&record->used, entry->seq, entry->seq + 1);
    worker_table_lease(&ledger->workers, worker);
}

/* New positions, possibly after some that the tail skips. */
static void apply_new(struct ledger *ledger, const struct entry *entry)
{
    int64_t end = entry->first + entry->positions;
    int64_t drawn = entry->units > 0 ? entry->first : end;
    if (drawn > ledger->position)
        ledger_skipped_add(ledger, ledger->position, drawn);
    ledger->position = end;
}

static void apply_draw(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    if (ledger->gaps.count > 0) {
        ledger_listing_add(ledger, entry->first, entry->positions);
        intervals_cut_front(&ledger->gaps, entry->first + entry->positions);
    } else {
        apply_new(ledger, entry);
    }
    if (entry->units == 0)
        return; /* positions without units, or skipped by the tail */
    ledger->handed++;
    if (entry->worker < 0) {
        ledger->acked++;
        return;
    }
    lease_to(ledger,
             lease_set_add(&ledger->leases, entry->first, entry->positions, entry->units, 1), entry,
             now_ms);
}

/* The mean is part of the entry, so that a replay has it too. */
static void set_mean(struct ledger *ledger, int64_t mean_ms)
{
    if (mean_ms <= 0)
        return;
    ledger->mean_ms = mean_ms;
    if (ledger->samples < LEDGER_MEAN_SAMPLES)
        ledger->samples++;
}

/* The batch is done. */
static void remove_lease(struct ledger *ledger, uint32_t number)
{
    const struct lease *lease = lease_set_get(&ledger->leases, number);
    ledger_listing_add(ledger, lease->first, lease->positions);
    lease_set_remove(&ledger->leases, number);
}

static void apply_redraw(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    uint32_t number = lease_set_starting(&ledger->leases, entry->first);
    disown(ledger, number);
    lease_set_get(&ledger->leases, number)->attempt++;
    ledger->handed++;
    ledger->redelivered++;
    set_mean(ledger, entry->value);
    if (entry->worker < 0) {
        ledger->acked++;
        remove_lease(ledger, number);
        return;
    }
    lease_to(ledger, number, entry, now_ms);
    worker_table_get(&ledger->workers, (uint32_t)entry->worker)->redelivered++;
}

/* Acked seqs, collected as long as they ascend. */
struct acked_seqs {
    struct intervals *acked;
    int64_t seqs[ACKED_AT_ONCE];
    size_t count;
};

static void add_acked(struct acked_seqs *seqs)
{
    intervals_add_numbers(seqs->acked, seqs->seqs, seqs->count);
    seqs->count = 0;
}

static void collect_acked(struct acked_seqs *seqs, int64_t seq)
{
    if (seqs->count == ACKED_AT_ONCE || (seqs->count > 0 && seqs->seqs[seqs->count - 1] >= seq))
        add_acked(seqs);
    seqs->seqs[seqs->count++] = seq;
}

static void apply_ack(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    struct worker_record *record = worker_table_get(&ledger->workers, (uint32_t)entry->worker);
    struct acked_seqs seqs;
    seqs.acked = &record->acked;
    seqs.count = 0;
    set_mean(ledger, entry->value);
    for (size_t i = 0; i < entry->count; i++) {
        uint32_t number = lease_set_find(&ledger->leases, (uint32_t)entry->worker, entry->list[i]);
        if (number == LEASE_NONE)
            continue; /* twice in one request */
        const struct lease *lease = lease_set_get(&ledger->leases, number);
        lease_history_add(&ledger->history, &(struct lease_done){
                                                .first = lease->first,
                                                .positions = lease->positions,
                                                .seq = lease->seq,
                                                .worker = lease->worker,
                                                .attempt = lease->attempt,
                                            });
        collect_acked(&seqs, entry->list[i]);
        disown(ledger, number);
        remove_lease(ledger, number);
        ledger->acked++;
        record->done++;
        worker_record_count(record, now_ms);
    }
    add_acked(&seqs);
}

static void apply_release(struct ledger *ledger, const struct entry *entry)
{
    struct worker_record *record = worker_table_get(&ledger->workers, (uint32_t)entry->worker);
    for (size_t i = 0; entry->list ? i < entry->count : record->leases.first != LEASE_NONE; i++) {
        uint32_t number =
            entry->list ? lease_set_find(&ledger->leases, (uint32_t)entry->worker, entry->list[i])
                        : record->leases.first;
        if (number == LEASE_NONE)
            continue; /* an entry from a file may name a seq without a lease */
        disown(ledger, number);
        lease_set_wait(&ledger->leases, number);
    }
}

/* Rewinds the last positions drawn, turns others into a gap; a batch that was leased before waits
 * again, as one. Without units: the tail had skipped them. */
static void apply_undo_draw(struct ledger *ledger, const struct entry *entry)
{
    int64_t end = entry->first + entry->positions;
    ledger->acked -= entry->units > 0;
    ledger->handed -= entry->units > 0;
    if (entry->attempt > 0) {
        uint32_t number = lease_set_add(&ledger->leases, entry->first, entry->positions,
                                        entry->units, (uint32_t)entry->attempt);
        lease_set_wait(&ledger->leases, number);
        ledger->redelivered--;
    } else if (end == ledger->position && entry->value == 0) {
        ledger->position = entry->first;
        intervals_cut_back(&ledger->skipped, entry->first);
    } else {
        intervals_add(&ledger->gaps, entry->first, end);
    }
}

static void add_intervals(struct intervals *intervals, const struct entry *entry)
{
    for (size_t i = 0; i + 1 < entry->count; i += 2)
        intervals_add(intervals, entry->list[i], entry->list[i + 1]);
}

static void seek(struct ledger *ledger, struct ledger_past *past, int64_t position)
{
    ledger_past_take(past, ledger);
    past->sought = position;
    past->next = ledger->room;
    ledger->room = (struct intervals){0};
    worker_table_withdraw(&ledger->workers);
    ledger->position = position;
}

static void apply_seek(struct ledger *ledger, const struct entry *entry)
{
    struct ledger_past past;
    if (ledger->past) {
        seek(ledger, ledger->past, entry->value);
        return;
    }
    ledger_past_init(&past);
    seek(ledger, &past, entry->value);
    ledger_past_merge(&past, &past.next);
    ledger_past_settle(&past, ledger);
    ledger_past_release(&past);
}

static void restore(struct ledger *ledger, struct ledger_past *past, int64_t position)
{
    ledger_past_take(past, ledger);
    past->workers = ledger->workers;
    ledger->workers = (struct worker_table){0};
    ledger->gaps = past->next;
    past->next = (struct intervals){0};
    ledger->position = position;
    ledger->past = NULL;
}

static void apply_restore(struct ledger *ledger, const struct entry *entry)
{
    struct ledger_past past;
    if (ledger->past) {
        restore(ledger, ledger->past, entry->value);
        return;
    }
    ledger_past_init(&past);
    past.next = ledger->room;
    ledger->room = (struct intervals){0};
    add_intervals(&past.next, entry);
    restore(ledger, &past, entry->value);
    ledger_past_release(&past);
}

static void apply_head(struct ledger *ledger, const struct entry *entry)
{
    ledger->position = entry->list[0];
    ledger->paused = entry->list[1] != 0;
    ledger->acked = entry->list[2];
    ledger->redelivered = entry->list[3];
    ledger->handed = entry->list[4];
    ledger->mean_ms = entry->list[5];
}

static void apply_lease(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    uint32_t number = lease_set_add(&ledger->leases, entry->first, entry->positions, entry->units,
                                    (uint32_t)entry->attempt);
    if (entry->worker < 0)
        lease_set_wait(&ledger->leases, number);
    else
        lease_to(ledger, number, entry, now_ms);
}

static void apply_idle(struct ledger *ledger, const struct entry *entry)
{
    for (size_t i = 0; i < entry->count; i++)
        worker_table_rank_last(&ledger->workers, (uint32_t)entry->list[i]);
}

static void apply_forgotten_workers(struct ledger *ledger, const struct entry *entry)
{
    struct forgotten_workers *forgotten = &ledger->workers.forgotten;
    for (size_t i = 0; i + 1 < entry->count; i += 2)
        forgotten_workers_add(forgotten, entry->list[i], entry->list[i + 1]);
    if (entry->value != 0)
        forgotten_workers_turn(forgotten);
}

static void apply_used(struct ledger *ledger, const struct entry *entry)
{
    struct worker_record *record = worker_table_get(&ledger->workers, (uint32_t)entry->worker);
    add_intervals(&record->used, entry);
    record->done = entry->value;
    record->redelivered = entry->attempt;
}

void ledger_apply(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    switch (entry->type) {
    case ENTRY_DRAW:
        apply_draw(ledger, entry, now_ms);
        break;
    case ENTRY_REDRAW:
        apply_redraw(ledger, entry, now_ms);
        break;
    case ENTRY_ACK:
        apply_ack(ledger, entry, now_ms);
        break;
    case ENTRY_RELEASE:
        apply_release(ledger, entry);
        break;
    case ENTRY_UNDO_DRAW:
        apply_undo_draw(ledger, entry);
        break;
    case ENTRY_PAUSE:
    case ENTRY_RESUME:
        ledger->paused = entry->type == ENTRY_PAUSE;
        break;
    case ENTRY_SEEK:
        apply_seek(ledger, entry);
        break;
    case ENTRY_RESTORE:
        apply_restore(ledger, entry);
        break;
    case ENTRY_LEDGER:
        apply_head(ledger, entry);
        break;
    case ENTRY_GAPS:
        add_intervals(&ledger->gaps, entry);
        break;
    case ENTRY_SKIPPED:
        add_intervals(&ledger->skipped, entry);
        break;
    case ENTRY_USED:
        apply_used(ledger, entry);
        break;
    case ENTRY_ACKED:
        add_intervals(&worker_table_get(&ledger->workers, (uint32_t)entry->worker)->acked, entry);
        break;
    case ENTRY_LEASE:
        apply_lease(ledger, entry, now_ms);
        break;
    case ENTRY_DONE:
        lease_history_add(&ledger->history, &(struct lease_done){
                                                .first = entry->first,
                                                .positions = entry->positions,
                                                .seq = entry->seq,
                                                .worker = (uint32_t)entry->worker,
                                                .attempt = (uint32_t)entry->attempt,
                                            });
        break;
    case ENTRY_IDLE:
        apply_idle(ledger, entry);
        break;
    case ENTRY_FORGOTTEN_WORKERS:
        apply_forgotten_workers(ledger, entry);
        break;
    default:
        break; /* ENTRY_WORKER was applied when it was prepared; the others belong to streams.c */
    }
}
