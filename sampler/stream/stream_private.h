/* SPDX-License-Identifier: MIT */
/* Shared by stream*.c and streams.c. Private to them. */
#ifndef SAMPLER_STREAM_STREAM_PRIVATE_H
#define SAMPLER_STREAM_STREAM_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/hash_table.h"
#include "sampler/journal/journal.h"
#include "sampler/ledger/ledger.h"
#include "sampler/order/batching_search.h"
#include "sampler/stream/stream.h"
#include "sampler/stream/streams.h"

struct committer;

/* A worker's leases that are being acked or extended in pieces (stream_many.c). */
struct stream_hold {
    struct stream_hold *next;
    const char *worker; /* borrowed */
};

struct stream {
    struct streams *streams;
    struct stream_definition definition; /* owned */
    struct stream_binding binding;
    struct sampling_plan *plan; /* held; NULL while the journal is being read, and set aside */
    uint32_t number;            /* in the journal; ascending in the order of creation */
    uint32_t place;             /* in streams->places */
    int64_t generation;
    struct ledger ledger; /* guarded by the streams' mutex, like `deleted` */
    bool deleted;
    struct stream_hold *holds; /* guarded, too */
    bool jumped; /* `ledger` still contains a seek or restore that was not kept; guarded, too */
    struct batching_search search; /* for the next batch, as far as it got; guarded, too */
    bool searches;                 /* a thread continues a copy of it, without the mutex */
    pthread_cond_t searched;
    _Atomic int holders;
    struct stream *next_buried;
    struct metrics_blocks metrics;
    struct readers readers;
};

/* A deleted stream's name, and its last generation. */
struct forgotten_name {
    char name[STREAM_NAME_BYTES];
    int64_t generation;
};

struct streams {
    struct streams_options options;
    pthread_mutex_t mutex;       /* guards all below, and every stream's ledger */
    struct journal *journal;     /* owned, or NULL: nothing is kept */
    struct committer *committer; /* owned; NULL without a journal, and before the start */
    struct stream **items;       /* [count], each held; by number, `default` first */
    size_t count, capacity;
    struct stream **places; /* [count], the same streams, unordered */
    size_t places_capacity;
    struct hash_table names; /* indexes into places by name */
    uint32_t next_number;
    struct forgotten_name *forgotten; /* [forgotten_count]; a ring once it is full */
    size_t forgotten_count, forgotten_capacity, forgotten_oldest;
    struct hash_table forgotten_names;
    int64_t generation_floor; /* highest generation of the forgotten names that are not listed */
    struct stream *buried;    /* unreferenced, until streams_sweep() */
};

/* A stream outside all lists, with one reference. `definition` and `plan` are taken, also on
 * failure. */
enum error stream_new(struct streams *streams, struct stream_definition *definition,
                      const struct stream_binding *binding, struct sampling_plan *plan,
                      uint32_t number, int64_t generation, struct stream **ret_stream) MUST_CHECK;
void stream_take(struct stream *stream);
/* No references are left. */
void stream_free(struct stream *stream);
/* Does it have more than a few leases, gaps, skipped spans and workers? The mutex is held, or no
 * other thread is running. */
bool stream_is_large(const struct stream *stream);

/* Reserves room in the journal and memory, then journals the entry and applies it. The mutex is
 * held. On failure nothing changes. */
enum error stream_change(struct stream *stream, struct entry *entry, int64_t now_ms) MUST_CHECK;
/* The mutex is held. ERROR_NOT_FOUND: it was deleted. The journal's failure: a seek or restore is
 * not undone yet. */
enum error stream_check_alive(const struct stream *stream) MUST_CHECK;
/* The mutex is held. True: the response must not be sent before waiter->ready(). */
bool stream_wait(struct streams *streams, struct journal_waiter *waiter);

/* The mutex is held. ERROR_UNAVAILABLE: many leases of this worker (NULL: of any) are being
 * acked. */
enum error stream_check_holds(const struct stream *stream, const char *worker) MUST_CHECK;
/* The mutex is held. Acks all of pull->acks, which ascend, or none. */
enum error stream_ack_now(struct stream *stream, const struct ledger_pull *pull) MUST_CHECK;

/* Sorts and removes duplicates; returns the new count. */
size_t stream_sort_seqs(int64_t *seqs, size_t count);

/* Call it without the mutex between two pieces of long work: a mutex is not fair, so waiters need a
 * moment in which it is not taken again. */
void stream_give_way(void);

/* ERROR_USAGE: beyond the stream's end, or inside a batch if all have one size. */
enum error stream_check_position(const struct batching *batching, int64_t position) MUST_CHECK;

/* The time of all leases; it stands still while the process does, and for a moment after. */
int64_t stream_clock_ms(void);

#endif
