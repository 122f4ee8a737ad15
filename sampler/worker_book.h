/*
 * The workers of a stream: their names, which of their seqs were ever used, which were acked, and
 * what they did lately. A (worker, seq) never stands for two batches, so nothing of this is ever
 * forgotten while the stream is not restored; seqs that are counted up cost one interval.
 *
 * A worker is known by a number that stays the same. At most WORKER_BOOK_LIMIT of them.
 *
 * Not for several threads at once.
 */
#ifndef SAMPLER_WORKER_BOOK_H
#define SAMPLER_WORKER_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/intervals.h"
#include "sampler/lease_set.h"

/* seqs go from 0 to this: the end of an interval of them is an integer as well. */
#define SEQ_MOST (INT64_MAX - 1)
#define WORKER_NAME_BYTES 129 /* 1 to 128 of [A-Za-z0-9._:-], NUL */
#define WORKER_BOOK_LIMIT 100000
/* Intervals of one worker's seqs: whoever does not count them up cannot fill the memory. */
#define WORKER_SEQS_LIMIT 65536

#define WORKER_RATE_SECONDS 60
#define WORKER_RATE_SLOTS 12

struct worker_record {
    char *name; /* owned */
    struct intervals used;
    struct intervals acked;
    struct lease_list leases;
    int64_t leased;      /* how many these are */
    int64_t done;        /* batches that were acked */
    int64_t redelivered; /* batches it got that somebody had before */
    int64_t seen_ms;     /* when it last asked for anything; -1: before this start */
    /* Batches acked in slices of 5 s; `rate_slice` is the newest one's number. */
    uint32_t rate_counts[WORKER_RATE_SLOTS];
    int64_t rate_slice;
};

struct worker_book {
    struct worker_record **records; /* [count], each owned: they never move */
    size_t count, capacity;
    uint32_t *slots; /* by name: linear probing, a power of two */
    size_t slot_count;
};

void worker_book_release(struct worker_book *book);

/* Is it 1 to 128 of [A-Za-z0-9._:-]? */
bool worker_name_is_valid(const char *name);

/* WORKER_NONE: never heard of. */
uint32_t worker_book_find(const struct worker_book *book, const char *name);
struct worker_record *worker_book_get(const struct worker_book *book, uint32_t worker);

/* A new worker with the number book->count, or ERROR_MEMORY, also at WORKER_BOOK_LIMIT. */
enum error worker_book_add(struct worker_book *book, const char *name, size_t length) MUST_CHECK;

/* `now_ms` is the clock of the leases. */
void worker_record_count(struct worker_record *record, int64_t now_ms);
/* Batches a second over the last minute. */
double worker_record_rate(const struct worker_record *record, int64_t now_ms);

#endif
