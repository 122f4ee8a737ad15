/* SPDX-License-Identifier: MIT */
/*
 * The workers of a stream: their names, their used and acked seqs, and recent activity. A (worker,
 * seq) never stands for two batches; seqs that are counted up cost one interval.
 *
 * A worker is known by a number. Beyond WORKER_TABLE_LIMIT workers, a new one takes the number of
 * the one that is idle longest: without a lease, and longest not seen. Of that one only the hash of
 * its name and the end of its seqs are kept (forgotten_workers.h): it may return and continue
 * counting.
 *
 * Not thread-safe.
 */
#ifndef SAMPLER_LEDGER_WORKER_TABLE_H
#define SAMPLER_LEDGER_WORKER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"
#include "sampler/ledger/forgotten_workers.h"
#include "sampler/ledger/intervals.h"
#include "sampler/ledger/lease_set.h"

/* seqs go from 0 to this, so that the end of an interval is an integer as well. */
#define SEQ_MOST (INT64_MAX - 1)
#define WORKER_NAME_BYTES 129 /* 1 to 128 of [A-Za-z0-9._:-], NUL */
#define WORKER_TABLE_LIMIT 100000
/* Intervals of one worker's seqs: bounds the memory of a worker that does not count up. */
#define WORKER_SEQS_LIMIT 65536

#define WORKER_RATE_SECONDS 60
#define WORKER_RATE_SLOTS 12

struct worker_record {
    char *name; /* owned */
    uint32_t number;
    struct worker_record *before, *after; /* in the list of idle or busy workers */
    int64_t forgotten_below; /* smaller seqs are from before it was forgotten; all are in `used` */
    uint64_t done_since;     /* history's count when it joined: older items are another worker's */
    struct intervals used;
    struct intervals acked;
    uint64_t withdrawals; /* the table's count for which the next two are valid */
    struct lease_list leases;
    int64_t leased;      /* their number */
    int64_t done;        /* batches that were acked */
    int64_t redelivered; /* batches it got that were leased before */
    int64_t seen_ms;     /* its last request; -1: before this start */
    /* Batches acked, in slices of 5 s; `rate_slice` is the number of the newest. */
    uint32_t rate_counts[WORKER_RATE_SLOTS];
    int64_t rate_slice;
};

/* In order of joining. */
struct worker_list {
    struct worker_record *first, *last;
};

struct worker_table {
    struct worker_record **records; /* [count], each owned; they never move */
    size_t count, capacity;
    struct worker_list idle; /* those without a lease, the longest idle first */
    struct worker_list busy; /* the others */
    uint64_t withdrawals;    /* how often all leases were withdrawn */
    struct forgotten_workers forgotten;
    struct hash_table names; /* indexes by name */
};

void worker_table_release(struct worker_table *table);

/* Is it 1 to 128 of [A-Za-z0-9._:-]? */
bool worker_name_is_valid(const char *name);

/* WORKER_NONE: never seen. */
uint32_t worker_table_find(const struct worker_table *table, const char *name);
struct worker_record *worker_table_get(const struct worker_table *table, uint32_t worker);

/* The number for a new worker: table->count, or that of the longest idle one, which it replaces.
 * ERROR_MEMORY: all WORKER_TABLE_LIMIT have batches. */
enum error worker_table_room(const struct worker_table *table, const char *name,
                             uint32_t *ret_number) MUST_CHECK;
/* The end of an unknown name's earlier seqs; 0: it is new. */
int64_t worker_table_forgotten_below(const struct worker_table *table, const char *name);
/* Adds a worker with this number, which is table->count or that of an idle one; its seqs below
 * `forgotten_below` count as used. `done_since`: the lease history's count. ERROR_MEMORY, nothing
 * changed. */
enum error worker_table_add(struct worker_table *table, uint32_t number, const char *name,
                            size_t length, int64_t forgotten_below, uint64_t done_since) MUST_CHECK;

/* It has one more, or one fewer, batch. */
void worker_table_lease(struct worker_table *table, uint32_t worker);
void worker_table_disown(struct worker_table *table, uint32_t worker);
/* Withdraws all batches. O(1): worker_table_get() updates each record later. */
void worker_table_withdraw(struct worker_table *table);
/* It made a request now. */
void worker_table_see(struct worker_table *table, uint32_t worker, int64_t now_ms);
/* Makes it the last idle worker to be forgotten. */
void worker_table_rank_last(struct worker_table *table, uint32_t worker);

/* Counts an acked batch; `now_ms` is on the clock of the leases. */
void worker_record_count(struct worker_record *record, int64_t now_ms);
/* Batches per second over the last minute. */
double worker_record_rate(const struct worker_record *record, int64_t now_ms);

#endif
