/* SPDX-License-Identifier: MIT */
/*
 * Rows of a store that stay in device memory, in the store's form: all of them, or as many as fit.
 * A row is copied with the first batch that needs it, and never again: for later batches only row
 * numbers are sent, and the device gathers the rows by them.
 *
 * A place is a row's number in that memory. New rows of a batch get consecutive places, so that one
 * copy brings them. After the places of resident rows come B places for each slot of the ring: for
 * rows that find no room, or that another fetcher is currently fetching for its batch.
 *
 * A row may be gathered for a batch if the batch that brings it is the same or comes before it: the
 * copier's queue takes them in order. So each lookup names its batch.
 *
 * Threads: any, except for new and free. Nothing is allocated after resident_set_new().
 *
 * Dimensions: B rows per batch, K slots.
 */
#ifndef LOADER_FEED_RESIDENT_SET_H
#define LOADER_FEED_RESIDENT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/store/store.h"

/* Including the slots' places. */
#define RESIDENT_ROWS_LIMIT ((uint64_t)UINT32_MAX - 1)

struct resident_set;

/* The rows of one batch that must be fetched, in the order of the copy. */
struct resident_rows {
    size_t *at;              /* owned; [B] their indexes in the batch */
    int64_t *ids;            /* owned; [B] */
    double *labels;          /* owned; [B], filled by the fetch, as is */
    enum row_status *status; /* owned; [B] */
    size_t count;            /* number of rows: */
    size_t kept; /* how many stay, at places from `first` on; the others are for this batch only */
    uint32_t first;
};

/* Bytes used by a set with places for `rows` rows of such a store. UINT64_MAX: more than
 * possible. */
uint64_t resident_set_bytes(const struct store_info *store, int64_t rows, size_t batch_rows,
                            size_t slots);
/* Allocates for `rows` rows, 1 to 2^32 - 2 including the slots'. `device` is borrowed until
 * resident_set_free(). ERROR_MEMORY: there is less. */
enum error resident_set_new(const struct store_info *store, struct device *device, int64_t rows,
                            size_t batch_rows, size_t slots,
                            struct resident_set **ret_set) MUST_CHECK;
/* Call when the device no longer uses it. NULL is legal. */
void resident_set_free(struct resident_set *set);

enum error resident_rows_init(struct resident_rows *rows, size_t batch_rows) MUST_CHECK;
void resident_rows_release(struct resident_rows *rows);

/* Finds a place for each of the `count` rows of batch `sequence` in slot `slot`: ret_places[count].
 * Fills in labels and status of rows that are already there. */
void resident_set_find(struct resident_set *set, const int64_t *ids, size_t count, int64_t sequence,
                       size_t slot, uint32_t *ret_places, double *labels, enum row_status *status,
                       struct resident_rows *ret_missing);
/* The rows were fetched: copies their labels and status to the batch, and lets later batches find
 * them. */
void resident_set_fetched(struct resident_set *set, const struct resident_rows *missing,
                          const uint32_t *places, size_t count, double *labels,
                          enum row_status *status);

/* [places, row_bytes] in device memory. */
void *resident_set_memory(const struct resident_set *set);
/* The first of slot `slot`'s own places. */
uint32_t resident_set_own(const struct resident_set *set, size_t slot);
/* How many rows stay there now; how many were fetched to be copied there, including those that do
 * not stay. */
int64_t resident_set_count(const struct resident_set *set);
int64_t resident_set_copied(const struct resident_set *set);

#endif
