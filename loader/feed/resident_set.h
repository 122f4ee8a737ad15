/* SPDX-License-Identifier: MIT */
/*
 * Rows of a store that stay in the device's memory, as the store has them: all of them, or as many
 * as there is room for. A row comes with the first batch that needs it, and is never copied again:
 * of later batches only row numbers travel, and the device gathers the rows by them.
 *
 * A place is the number of a row in that memory. New rows of a batch have places one behind the
 * other, so that they come in one copy. Behind the places of rows that stay lie B places for each
 * slot of the ring: for rows that find no room, or that another fetcher is just fetching for a
 * batch of its own.
 *
 * A row may be gathered for a batch when the batch that brings it comes before, or is the same: the
 * copier's queue takes them in the order of their numbers. So whoever looks a row up says for which
 * batch.
 *
 * Threads: every call from every thread, except new and free. Nothing is allocated after
 * resident_set_new().
 *
 * Dimensions: B rows a batch, K slots.
 */
#ifndef LOADER_FEED_RESIDENT_SET_H
#define LOADER_FEED_RESIDENT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/store/store.h"

/* With the places of slots. */
#define RESIDENT_ROWS_LIMIT ((uint64_t)UINT32_MAX - 1)

struct resident_set;

/* Rows of one batch that are to be fetched, in the order in which they are to be copied. */
struct resident_rows {
    size_t *at;              /* owned; [B] where they stand in the batch */
    int64_t *ids;            /* owned; [B] */
    double *labels;          /* owned; [B], to be filled by the fetch, and so is */
    enum row_status *status; /* owned; [B] */
    size_t count;            /* of them: */
    size_t kept; /* so many stay, at places from `first` on; the others are for this batch */
    uint32_t first;
};

/* Of such a store, on such a device: the bytes that a set takes which has places for `rows` rows.
 * UINT64_MAX: more than there can be. */
uint64_t resident_set_bytes(const struct store_info *store, int64_t rows, size_t batch_rows,
                            size_t slots);
/* Room for `rows` rows, 1 to 2^32 - 2 with those of the slots. `device` is borrowed until
 * resident_set_free(). ERROR_MEMORY: there is less. */
enum error resident_set_new(const struct store_info *store, struct device *device, int64_t rows,
                            size_t batch_rows, size_t slots,
                            struct resident_set **ret_set) MUST_CHECK;
/* When the device is through with it. NULL is legal. */
void resident_set_free(struct resident_set *set);

enum error resident_rows_init(struct resident_rows *rows, size_t batch_rows) MUST_CHECK;
void resident_rows_release(struct resident_rows *rows);

/* Finds a place for each of `count` rows of batch number `sequence`, which lies in slot `slot`:
 * ret_places[count]. Labels and status of rows that are there already are filled in. */
void resident_set_find(struct resident_set *set, const int64_t *ids, size_t count, int64_t sequence,
                       size_t slot, uint32_t *ret_places, double *labels, enum row_status *status,
                       struct resident_rows *ret_missing);
/* They were fetched: their labels and status go to the batch, and later batches find them. */
void resident_set_fetched(struct resident_set *set, const struct resident_rows *missing,
                          const uint32_t *places, size_t count, double *labels,
                          enum row_status *status);

/* [places, row_bytes] in device memory. */
void *resident_set_memory(const struct resident_set *set);
/* The first of the places that are slot `slot`'s own. */
uint32_t resident_set_own(const struct resident_set *set, size_t slot);
/* How many rows stay there now; how many were fetched to be copied there, those that do not stay
 * among them. */
int64_t resident_set_count(const struct resident_set *set);
int64_t resident_set_copied(const struct resident_set *set);

#endif
