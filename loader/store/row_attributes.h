/* SPDX-License-Identifier: MIT */
/*
 * Weight and group of each row of a store, by id, in memory: training may need them in addition to
 * label and features, and every kind of store provides them in a scan of keys.
 *
 * If all groups are 64-bit integers, they are used as such; else each is its number in the store's
 * list of groups, sorted by bytes.
 *
 * Memory: 8 bytes per row for weights, 4 for groups, their distinct texts, and, unless ids are
 * consecutive, ids with an index (id_index.h). Immutable once read: any thread.
 */
#ifndef LOADER_STORE_ROW_ATTRIBUTES_H
#define LOADER_STORE_ROW_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

struct row_attributes;

/* Reads all keys of the store (not opened with keys_only) with store_scan_apart(). Only requested
 * columns use memory. ERROR_USAGE: the store lacks a requested column. */
enum error row_attributes_read(struct store *store, bool weights, bool groups,
                               struct row_attributes **ret_attributes) MUST_CHECK;
/* NULL is legal. */
void row_attributes_free(struct row_attributes *attributes);

/* For rows with these ids; rows whose status is not ROW_OK get 0, as their labels do. Only if
 * requested. Weights are doubles, or floats if `as_f32`. */
void row_attributes_weights(const struct row_attributes *attributes, const int64_t *ids,
                            const enum row_status *status, size_t rows, bool as_f32, void *weights);
void row_attributes_groups(const struct row_attributes *attributes, const int64_t *ids,
                           const enum row_status *status, size_t rows, int64_t *groups);

/* The list of groups, borrowed; NULL and 0: they are integers, or were not requested. */
const char *const *row_attributes_group_texts(const struct row_attributes *attributes,
                                              size_t *ret_count);

#endif
