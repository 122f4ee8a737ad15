/* SPDX-License-Identifier: MIT */
/*
 * Workers that a stream forgot to make room for others (worker_table.h): for each, the hash of its
 * name and the end of its seqs, so that an old seq is refused and never gets a second batch. About
 * 30 bytes per name instead of a record.
 *
 * Two generations of FORGOTTEN_WORKERS_LIMIT names: when the newer is full, the older is dropped.
 * So at least the last FORGOTTEN_WORKERS_LIMIT forgotten workers are known, at most twice as many.
 *
 * Names with the same hash (probability 2^-62 per pair) share an entry: a seq may then be refused
 * needlessly. Not thread-safe.
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
    int64_t below; /* its old seqs are below this */
};

struct forgotten_set {
    struct forgotten_worker *workers; /* owned; [count] */
    size_t count, capacity;
    struct hash_table names; /* indexes by name */
};

/* All zeros is empty. */
struct forgotten_workers {
    struct forgotten_set newer, older;
};

void forgotten_workers_release(struct forgotten_workers *forgotten);

/* From 1 to 2^62. */
int64_t forgotten_workers_hash(const char *name, size_t length);
/* `below` of the name; 0: not known. */
int64_t forgotten_workers_find(const struct forgotten_workers *forgotten, int64_t name);

/* Room for `more` names, at most FORGOTTEN_WORKERS_LIMIT; drops the older generation if they do not
 * fit into the newer. */
enum error forgotten_workers_reserve(struct forgotten_workers *forgotten, size_t more) MUST_CHECK;
/* A name that is already present keeps the higher `below`. */
void forgotten_workers_add(struct forgotten_workers *forgotten, int64_t name, int64_t below);
/* Drops the older generation and makes the newer the older: for reading ledgers. */
void forgotten_workers_turn(struct forgotten_workers *forgotten);

#endif
