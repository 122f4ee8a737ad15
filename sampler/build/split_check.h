/* SPDX-License-Identifier: MIT */
/*
 * Warns of labels that have no unit on a side of the split: sides are chosen by hashing (split.h),
 * so a label of few units may miss one, and groups are not cut.
 */
#ifndef SAMPLER_BUILD_SPLIT_CHECK_H
#define SAMPLER_BUILD_SPLIT_CHECK_H

#include "sampler/build/frame_set.h"
#include "sampler/frame/split.h"

/* Units of a frame that are looked at, at most: labels are judged until then. Most need a few. */
#define SPLIT_CHECK_UNITS (INT64_C(1) << 25)

/* How many labels of the frame have no unit on that side, and the first of them. *ret_unit_count:
 * units that were looked at, which stay below `most`. */
uint32_t split_check_side(const struct frame *frame, const struct split_shares *shares,
                          enum split split, int64_t most, uint32_t *ret_first,
                          int64_t *ret_unit_count);

/* Logs a warning for each frame and each side with a share that misses labels. */
void split_check_frames(const struct frame_set *frames, const struct split_shares *shares);

#endif
