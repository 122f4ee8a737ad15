/* SPDX-License-Identifier: MIT */
/*
 * Some rows of a partition as a partition: the third form. The whole may itself be a view, so a
 * split of some rows is a view of a view.
 */
#ifndef SAMPLER_FRAME_PARTITION_VIEW_H
#define SAMPLER_FRAME_PARTITION_VIEW_H

#include "sampler/frame/partition.h"

/* Rows [begin, end), begin < end, of `whole`, which must outlive the view. Memory: O(L). */
enum error partition_of_rows(struct partition *partition, const struct partition *whole,
                             int64_t begin, int64_t end) MUST_CHECK;
/* The rows of `whole` in `chosen` (at least one); both must outlive the view. Memory: 0.134 bytes
 * per unit of `whole`, and O(L); nothing per unit if `has_whole_categories`: the chosen rows are
 * complete categories. */
enum error partition_of_bitmap(struct partition *partition, const struct partition *whole,
                               const struct rank_bitmap *chosen,
                               bool has_whole_categories) MUST_CHECK;

#endif
