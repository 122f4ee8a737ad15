/* SPDX-License-Identifier: MIT */
/*
 * Labels as one-hot rows: C classes, C elements per row, all 0 except a 1 at the label's code. A
 * text's code is its number in the store's sorted list of labels; an integer is its own code, so 0
 * to C-1 are labels, whether or not all occur. The host makes the codes; the device makes rows of
 * them (device_one_hot()).
 */
#ifndef LOADER_FEED_ONE_HOT_H
#define LOADER_FEED_ONE_HOT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

#define ONE_HOT_CLASSES_LIMIT ((size_t)1 << 20)

/* The number of classes of a store's labels: `wanted` unless that is 0; else the size of its list
 * of texts, or the largest integer plus one, for which the keys of all rows are read (until
 * stop_requested()). ERROR_USAGE: labels cannot be codes: there are none, or real, negative or
 * large numbers, or more texts than `wanted`. */
enum error one_hot_classes(struct store *store, size_t wanted, size_t *ret_classes) MUST_CHECK;

/* `codes`, `labels`, `ids`: [rows]. ERROR_INPUT names the first id whose label is not a code. */
enum error one_hot_codes(const struct store_info *info, const int64_t *ids, const double *labels,
                         size_t rows, size_t classes, uint32_t *codes) MUST_CHECK;

#endif
