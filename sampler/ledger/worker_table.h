/* SPDX-License-Identifier: MIT */
/*
 * The workers of a stream: their names, which of their seqs were ever used, which were acked, and
 * what they did lately. A (worker, seq) never stands for two batches; seqs that are counted up cost
 * one interval.
 *
 * A worker is known by a number. At most WORKER_TABLE_LIMIT of them: one more takes the number of
 * the one that is idle longest, which has no lease and was neither seen nor lost one since. Of
 * that one only its name's hash and how far its seqs went stay (forgotten_workers.h): it may come
 * back and count on.
 *
 * Not for several threads at once.
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

/* seqs go from 0 to this: the end of an interval of them is an integer as well. */
#define SEQ_MOST (INT64_MAX - 1)
#define WORKER_NAME_BYTES 129 /* 1 to 128 of [A-Za-z0-9._:-], NUL */
#define WORKER_TABLE_LIMIT 100000
/* Intervals of one worker's seqs: whoever does not count them up cannot fill the memory. */
#define WORKER_SEQS_LIMIT 65536

#define WORKER_RATE_SECONDS 60
#define WORKER_RATE_SLOTS 12

struct worker_record {
    char *name; /* owned */
    uint32_t number;
    struct worker_record *before, *after; /* of those that are idle, or of those that are busy */
    int64_t forgotten_below; /* smaller seqs predate its being forgotten; all are in `used` */
    uint64_t done_since;     /* of the lease history: what is older is of another worker */
    struct intervals used;
    struct intervals acked;
    uint64_t withdrawals; /* the table's, for which the next two are right */
    struct lease_list leases;
    int64_t leased;      /* how many these are */
    int64_t done;        /* batches that were acked */
    int64_t redelivered; /* batches it got that somebody had before */
    int64_t seen_ms;     /* when it last asked for anything; -1: before this start */
    /* Batches acked in slices of 5 s; `rate_slice` is the newest one's number. */
    uint32_t rate_counts[WORKER_RATE_SLOTS];
    int64_t rate_slice;
};

/* In the order in which they joined. */
struct worker_list {
    struct worker_record *first, *last;
};

struct worker_table {
    struct worker_record **records; /* [count], each owned: they never move */
    size_t count, capacity;
    struct worker_list idle; /* those without a lease, the longest idle first */
    struct worker_list busy; /* the others */
    uint64_t withdrawals;    /* how often all leases were withdrawn */
    struct forgotten_workers forgotten;
    struct hash_table names; /* numbers by name */
};

void worker_table_release(struct worker_table *table);

/* Is it 1 to 128 of [A-Za-z0-9._:-]? */
bool worker_name_is_valid(const char *name);

/* WORKER_NONE: never seen. */
uint32_t worker_table_find(const struct worker_table *table, const char *name);
struct worker_record *worker_table_get(const struct worker_table *table, uint32_t worker);

/* The number that a new worker will have: table->count, or that of the longest idle one, which it
 * replaces. ERROR_MEMORY: all WORKER_TABLE_LIMIT have batches. */
enum error worker_table_room(const struct worker_table *table, const char *name,
                             uint32_t *ret_number) MUST_CHECK;
/* Below which seqs a name that is not known had others before; 0: it is new. */
int64_t worker_table_forgotten_below(const struct worker_table *table, const char *name);
/* A new worker with that number, which is table->count or that of an idle one; its seqs below
 * `forgotten_below` are used. `done_since`: what the lease history counts. ERROR_MEMORY, nothing
 * changed. */
enum error worker_table_add(struct worker_table *table, uint32_t number, const char *name,
                            size_t length, int64_t forgotten_below, uint64_t done_since) MUST_CHECK;

/* It has a batch more, or fewer. */
void worker_table_lease(struct worker_table *table, uint32_t worker);
void worker_table_disown(struct worker_table *table, uint32_t worker);
/* Nobody has a batch. O(1): each record learns it by worker_table_get(). */
void worker_table_withdraw(struct worker_table *table);
/* It was seen now. */
void worker_table_see(struct worker_table *table, uint32_t worker, int64_t now_ms);
/* Of those that are idle it is the last to be forgotten. */
void worker_table_rank_last(struct worker_table *table, uint32_t worker);

/* `now_ms` is the clock of the leases. */
void worker_record_count(struct worker_record *record, int64_t now_ms);
/* Batches a second over the last minute. */
double worker_record_rate(const struct worker_record *record, int64_t now_ms);

#endif
