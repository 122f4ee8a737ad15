/* SPDX-License-Identifier: MIT */
/*
 * Labels as one-hot rows: C classes, C elements a row, all 0 but a 1 at the label's code. The code
 * of a text is its number in the store's sorted list of labels; an integer is its own code, so that
 * 0 to C-1 are labels, whether all of them come or not. The host makes the codes; the device makes
 * rows of them (device_one_hot()).
 */
#ifndef LOADER_FEED_ONE_HOT_H
#define LOADER_FEED_ONE_HOT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

#define ONE_HOT_CLASSES_LIMIT ((size_t)1 << 20)

/* How many classes the labels of a store have: `wanted`, where that is not 0; else as many as its
 * list of texts, or the largest integer and one, for which the keys of all rows are read (until
 * stop_requested()). ERROR_USAGE where labels are no codes: there are none, or real numbers,
 * negative or large ones, or more texts than `wanted`. */
enum error one_hot_classes(struct store *store, size_t wanted, size_t *ret_classes) MUST_CHECK;

/* `codes`, `labels`, `ids`: [rows]. ERROR_INPUT naming the first id whose label is no code. */
enum error one_hot_codes(const struct store_info *info, const int64_t *ids, const double *labels,
                         size_t rows, size_t classes, uint32_t *codes) MUST_CHECK;

#endif
