/* SPDX-License-Identifier: MIT */
/*
 * The rows of a store in memory, all of them or as many as there is room for: read by one
 * sequential scan, kept in slots of a fixed stride, the label in front of its row. A random row is
 * one copy instead of a query or a read, and a network file system sees one pass over the file
 * instead of a request a row.
 *
 * A row cache is a struct store itself, so that readers do not notice. The scan is a thread's;
 * what is not there yet, or finds no room, is fetched from the store itself. In a shuffled epoch
 * each row is as likely as any other: the first ones do as well as the latest used. It holds rows
 * as they were when it was made. Any number of threads fetch at once; fetching what is there needs
 * no lock, no system call and no allocation.
 */
#ifndef LOADER_STORE_ROW_CACHE_H
#define LOADER_STORE_ROW_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

/* Memory that a row takes in a cache at most; `ids`: the store has a column of them. */
uint64_t row_cache_row_bytes(size_t features, enum element element, bool ids);
/* Memory that a cache of such a store takes at most. */
uint64_t row_cache_bytes(const struct store_info *info);

/* Begins to read `inner` (which was not opened with keys_only; store_open_cached() may have read it
 * already), which is borrowed until store_close() of the cache, which waits for the scan: label
 * texts, names and scans stay its own. Rows that inner calls ROW_BAD are ROW_BAD here too, with the
 * same message. Keeps rows in `limit_bytes` of memory, and stops earlier where less than
 * `reserve_bytes` (0: none) are free on the machine. A store that turns out to be wrong as a whole
 * (an id twice) fails each fetch from then on. Progress to the log. */
enum error row_cache_open(struct store *inner, uint64_t limit_bytes, uint64_t reserve_bytes,
                          struct store **ret_cache) MUST_CHECK;
/* Until it is filled as far as it will be: OK, or why it is not. */
enum error row_cache_wait(struct store *cache) MUST_CHECK;

#endif
