/* SPDX-License-Identifier: MIT */
/*
 * Workers that read a stream by index and give their name with `index=`. They lease nothing, so the
 * ledger does not know them; this record is informational and ends with the process.
 *
 * Names are hashed to READER_STRIPES tables, each with its own mutex, so HTTP threads rarely
 * contend and no draw waits for them. At most READERS_MOST are listed. A stripe keeps twice its
 * share, because hashes do not divide evenly; a further reader replaces the one that the stripe saw
 * least recently. All streams together keep at most READERS_ALL_MOST; beyond that stripes only
 * replace.
 *
 * Threads: all functions from any thread, except _init and _release.
 */
#ifndef SAMPLER_STREAM_READERS_H
#define SAMPLER_STREAM_READERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"
#include "sampler/ledger/worker_table.h"
#include "sampler/order/batching.h"

#define READERS_MOST 10000
#define READERS_ALL_MOST 200000 /* 50 MB */
#define READER_STRIPES 8
#define READER_RATE_SECONDS 8

struct reader {
    char worker[WORKER_NAME_BYTES];
    int64_t batches, ids; /* sent to it */
    int64_t newest;       /* the last index requested */
    int64_t end;          /* end position of that batch */
    int64_t first_ns, seen_ns;
    int64_t second;                      /* of seen_ns: the newest in ids_of */
    int64_t ids_of[READER_RATE_SECONDS]; /* a ring, by second */
};

struct reader_stripe {
    pthread_mutex_t mutex;
    struct reader *readers; /* owned, [count] */
    size_t count, capacity;
    struct hash_table names;    /* indexes by name */
    int64_t batches, positions; /* sent to all readers ever */
    int64_t seen_ns;            /* of the last reader */
};

struct readers {
    struct reader_stripe stripes[READER_STRIPES];
};

void readers_init(struct readers *set);
void readers_release(struct readers *set);

/* Records that `worker` (worker_name_is_valid()) was sent batch number `index`. Without memory a
 * new name is ignored. Blocks only on its stripe's mutex. */
void readers_note(struct readers *set, const char *worker, int64_t index, const struct span *batch,
                  int64_t now_ns);

struct readers_progress {
    int64_t batches, positions; /* sent to all readers so far */
    int64_t end; /* of the furthest reader, of those seen within READER_RATE_SECONDS before the last
                  * one; 0: no readers */
};
/* A millisecond for READERS_MOST; holds only one stripe's mutex at a time. */
void readers_progress(struct readers *set, struct readers_progress *ret_progress);

/* How many readers_list() would return. */
size_t readers_count(struct readers *set);
/* The last READERS_MOST, most recently seen first; free() *ret_list. ERROR_MEMORY. Takes
 * milliseconds if there are many. */
enum error readers_list(struct readers *set, struct reader **ret_list,
                        size_t *ret_count) MUST_CHECK;

/* Milliseconds since its last request. */
int64_t reader_seen_ms(const struct reader *reader, int64_t now_ns);
/* Ids per second over the last READER_RATE_SECONDS, or since it was first seen (at least a
 * second). */
double reader_ids_per_s(const struct reader *reader, int64_t now_ns);

#endif
