/* SPDX-License-Identifier: MIT */
/*
 * Who reads a stream by index: workers that name themselves beside `index=`. They lease nothing, so
 * the ledger does not know them; what is known of them is for people and goes with the process.
 *
 * Names are divided among READER_STRIPES tables by their hash, each with a mutex of its own, so
 * that HTTP threads seldom meet and no draw waits for any of these. At most READERS_MOST are
 * listed. A stripe keeps twice its share of them, because hashes do not divide evenly; one more
 * takes the place of the reader that its stripe saw least recently. All streams together keep at
 * most READERS_ALL_MOST; beyond that a stripe only replaces.
 *
 * Threads: all functions from every thread, but _init and _release.
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
    int64_t batches, ids; /* that it was sent */
    int64_t newest;       /* the index that it asked for last */
    int64_t end;          /* the position behind that batch */
    int64_t first_ns, seen_ns;
    int64_t second;                      /* of seen_ns: the newest of ids_of */
    int64_t ids_of[READER_RATE_SECONDS]; /* in a ring, by second */
};

struct reader_stripe {
    pthread_mutex_t mutex;
    struct reader *readers; /* owned, [count] */
    size_t count, capacity;
    struct hash_table names;    /* numbers by name */
    int64_t batches, positions; /* sent to all that ever were here */
    int64_t seen_ns;            /* the last of them */
};

struct readers {
    struct reader_stripe stripes[READER_STRIPES];
};

void readers_init(struct readers *set);
void readers_release(struct readers *set);

/* `worker` (worker_name_is_valid()) was sent batch number `index`. Where there is no memory for a
 * new name it is not remembered. Does not block but for its stripe's mutex. */
void readers_note(struct readers *set, const char *worker, int64_t index, const struct span *batch,
                  int64_t now_ns);

struct readers_progress {
    int64_t batches, positions; /* sent to all readers so far */
    int64_t end; /* where the furthest is, of those seen READER_RATE_SECONDS before the last one or
                    later; 0: nobody reads */
};
/* A millisecond for READERS_MOST, but never longer than a stripe's with its mutex. */
void readers_progress(struct readers *set, struct readers_progress *ret_progress);

/* How many readers_list() would list. */
size_t readers_count(struct readers *set);
/* The last READERS_MOST, the last seen first; free() *ret_list. ERROR_MEMORY. Milliseconds where
 * they are many. */
enum error readers_list(struct readers *set, struct reader **ret_list,
                        size_t *ret_count) MUST_CHECK;

/* Milliseconds since it was last seen. */
int64_t reader_seen_ms(const struct reader *reader, int64_t now_ns);
/* Ids a second over the last READER_RATE_SECONDS, or since it was first seen, a second at least. */
double reader_ids_per_s(const struct reader *reader, int64_t now_ns);

#endif
