/* SPDX-License-Identifier: MIT */
/*
 * Weight and group of each row of a store, by id, in memory: what training wants beside label and
 * features, and what every kind of store gives when its keys are scanned.
 *
 * Groups that are all integers within 64 bits are themselves; else each is its number in the list
 * of the store's groups, sorted by bytes.
 *
 * Memory: 8 bytes a row for weights, 4 for groups, their different texts, and, where ids are not
 * consecutive, those and an index of them (id_index.h). Immutable once read: any thread.
 */
#ifndef LOADER_STORE_ROW_ATTRIBUTES_H
#define LOADER_STORE_ROW_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

struct row_attributes;

/* Reads all keys of the store, which was not opened with keys_only, as store_scan_apart() does.
 * What is not wanted takes no memory. ERROR_USAGE: the store has no column of what is wanted. */
enum error row_attributes_read(struct store *store, bool weights, bool groups,
                               struct row_attributes **ret_attributes) MUST_CHECK;
/* NULL is legal. */
void row_attributes_free(struct row_attributes *attributes);

/* Of rows with these ids; rows whose status is not ROW_OK get 0, as their labels do. Only what was
 * wanted. Weights are doubles, or `as_f32` floats. */
void row_attributes_weights(const struct row_attributes *attributes, const int64_t *ids,
                            const enum row_status *status, size_t rows, bool as_f32, void *weights);
void row_attributes_groups(const struct row_attributes *attributes, const int64_t *ids,
                           const enum row_status *status, size_t rows, int64_t *groups);

/* The list of groups, borrowed; NULL and 0: they are integers, or were not wanted. */
const char *const *row_attributes_group_texts(const struct row_attributes *attributes,
                                              size_t *ret_count);

#endif
