/* SPDX-License-Identifier: MIT */
/*
 * Warns of labels that have no unit on one side of the split: sides are chosen by hashing
 * (split.h), so a rare label may miss one, and groups are not divided.
 */
#ifndef SAMPLER_BUILD_SPLIT_CHECK_H
#define SAMPLER_BUILD_SPLIT_CHECK_H

#include "sampler/build/frame_set.h"
#include "sampler/frame/split.h"

/* Logs a warning for each frame and each side with a share that lacks labels. */
void split_check_frames(const struct frame_set *frames, const struct split_shares *shares);

#endif
