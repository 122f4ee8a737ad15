/* SPDX-License-Identifier: MIT */
/*
 * All rows of a store in memory: read by one sequential scan, kept in slots of a fixed stride, the
 * label in front of its row. A random row is one copy instead of a query or a read, and a network
 * file system sees one pass over the file instead of a request a row.
 *
 * A row cache is a struct store itself, so that readers do not notice. It holds the rows as they
 * were when it was made. Any number of threads fetch at once; fetching needs no lock, no system
 * call and no allocation.
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

/* Reads all of `inner` (which was not opened with keys_only; store_open_cached() may have read it
 * already), which is borrowed until store_close() of the cache: label texts, names and scans stay
 * its own. Rows that inner calls ROW_BAD are ROW_BAD here too, with the same message. ERROR_MEMORY
 * naming the bytes when row_cache_bytes() is over `limit_bytes`. Blocks; progress to the log. */
enum error row_cache_open(struct store *inner, uint64_t limit_bytes,
                          struct store **ret_cache) MUST_CHECK;

#endif
