/* SPDX-License-Identifier: MIT */
/*
 * Sorts the units of a batch by id, labels alongside (`sort=1`), so that a store reads them in its
 * own order. Radix sort over the bytes in which the ids differ; no allocation.
 *
 * Dimensions: B units.
 */
#ifndef SAMPLER_BATCH_UNIT_SORT_H
#define SAMPLER_BATCH_UNIT_SORT_H

#include <stddef.h>
#include <stdint.h>

/* ids [B] (each >= 0) ascending, labels [B] following; both scratch arrays are [B] as well. */
void unit_sort(int64_t *ids, uint32_t *labels, size_t count, int64_t *scratch_ids,
               uint32_t *scratch_labels);

#endif
