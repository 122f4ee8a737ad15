/* SPDX-License-Identifier: MIT */
/*
 * Some rows of a partition as a partition of their own: the third form. The whole may itself be a
 * view, so that a split of some rows is a view of a view.
 */
#ifndef SAMPLER_FRAME_PARTITION_VIEW_H
#define SAMPLER_FRAME_PARTITION_VIEW_H

#include "sampler/frame/partition.h"

/* Rows [begin, end), begin < end, of `whole`, which must outlive them. Memory: O(L). */
enum error partition_of_rows(struct partition *partition, const struct partition *whole,
                             int64_t begin, int64_t end) MUST_CHECK;
/* The rows of `whole` that `chosen` has (at least one); both must outlive the view. Memory: 0.134
 * bytes a unit of `whole`, and O(L); nothing a unit where `has_whole_categories`: the chosen rows
 * are those of some categories altogether. */
enum error partition_of_bitmap(struct partition *partition, const struct partition *whole,
                               const struct rank_bitmap *chosen,
                               bool has_whole_categories) MUST_CHECK;

#endif
