/* SPDX-License-Identifier: MIT */
/*
 * The rows of a store in memory, all or as many as fit: read by one sequential scan, kept in slots
 * of a fixed stride, each label before its row. A random row is one copy instead of a query or a
 * read, and a network file system sees one pass over the file instead of a request per row.
 *
 * A row cache is itself a struct store, transparent to readers. A thread scans; rows not there yet,
 * or that do not fit, are fetched from the store itself. In a shuffled epoch all rows are equally
 * likely, so the first ones are as good to keep as the most recently used. It holds rows as they
 * were when read. Any number of threads may fetch at once; fetching cached rows needs no lock, no
 * system call and no allocation.
 */
#ifndef LOADER_STORE_ROW_CACHE_H
#define LOADER_STORE_ROW_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

/* Most memory per row in a cache; `ids`: the store has an id column. */
uint64_t row_cache_row_bytes(size_t features, enum element element, bool ids);

/* Begins to read `inner` (not opened with keys_only; store_open_with() may have read its rows),
 * which is borrowed until store_close() of the cache, which waits for the scan: label texts,
 * names and scans remain inner's. Rows that are ROW_BAD in inner are ROW_BAD here too, with the
 * same message. Keeps rows in `limit_bytes` of memory, and stops earlier if less than
 * `reserve_bytes` (0: none) are free on the machine. If the store turns out to be invalid as a
 * whole (a duplicate id), each fetch fails from then on. Logs progress. */
enum error row_cache_open(struct store *inner, uint64_t limit_bytes, uint64_t reserve_bytes,
                          struct store **ret_cache) MUST_CHECK;
/* Waits until it is filled as far as possible: OK, or why it is not. */
enum error row_cache_wait(struct store *cache) MUST_CHECK;

#endif
