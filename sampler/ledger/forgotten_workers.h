/* SPDX-License-Identifier: MIT */
/*
 * Workers that a stream forgot to make room for others (worker_table.h): of each the hash of its
 * name and how far its seqs went, so that a seq from before is refused and never gets a second
 * batch. Some 30 bytes a name instead of a record.
 *
 * Two generations of FORGOTTEN_WORKERS_LIMIT names: when the newer one is full the older one goes.
 * So at least the last FORGOTTEN_WORKERS_LIMIT that were forgotten are known, at most twice as
 * many.
 *
 * Two names of one hash (2^-62 a pair) have one entry: what is refused then is refused needlessly.
 * Not for several threads at once.
 */
#ifndef SAMPLER_LEDGER_FORGOTTEN_WORKERS_H
#define SAMPLER_LEDGER_FORGOTTEN_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"

#define FORGOTTEN_WORKERS_LIMIT 262144

struct forgotten_worker {
    int64_t name;  /* hash of it, at least 1 */
    int64_t below; /* its seqs from before are below this */
};

struct forgotten_set {
    struct forgotten_worker *workers; /* owned; [count] */
    size_t count, capacity;
    struct hash_table names; /* numbers by name */
};

/* All zeros is empty. */
struct forgotten_workers {
    struct forgotten_set newer, older;
};

void forgotten_workers_release(struct forgotten_workers *forgotten);

/* From 1 to 2^62. */
int64_t forgotten_workers_hash(const char *name, size_t length);
/* What `below` of the name is; 0: not known. */
int64_t forgotten_workers_find(const struct forgotten_workers *forgotten, int64_t name);

/* Room for `more` names, at most FORGOTTEN_WORKERS_LIMIT; what is older goes when they are too many
 * for the newer ones. */
enum error forgotten_workers_reserve(struct forgotten_workers *forgotten, size_t more) MUST_CHECK;
/* A name that is there already keeps the higher of both. */
void forgotten_workers_add(struct forgotten_workers *forgotten, int64_t name, int64_t below);
/* What is newer is older from now on, and what was older is gone: for ledgers that are read. */
void forgotten_workers_turn(struct forgotten_workers *forgotten);

#endif
