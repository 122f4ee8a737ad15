/* SPDX-License-Identifier: MIT */
/*
 * Views: some rows of a frame as a complete frame: rows and labels are renumbered from 0, labels
 * without units are dropped, and the digest is that of the remaining list, so that a view gives the
 * same order as a store with just these rows.
 *
 * A view copies nothing from the whole. Dimensions: N units of the whole, L labels.
 *
 *   rows A:B   O(L) memory and start-up; the digest reads once what is stored
 *   a split    0.134 bytes a unit of the rows A:B, as much again where there is more than one
 *              label (an eighth of a byte in each is the bitmap itself), 8 a unit of the view where
 *              the frame has weights; start-up O(N)
 */
#ifndef SAMPLER_FRAME_FRAME_VIEW_H
#define SAMPLER_FRAME_FRAME_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/split.h"

/* Rows [rows_begin, rows_end) of `whole` (0 and 0: all of them), and of these one side of the
 * split; SPLIT_NONE: both sides, and shares may be NULL. `whole` must not be a view, and must
 * outlive it. Free it with frame_free(). May read N units: not on an event loop. ERROR_USAGE: rows
 * that the frame does not have, a side without --splits, a side without units. ERROR_CANCELLED
 * after stop_requested(). */
enum error frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                      const struct split_shares *shares, enum split split,
                      struct frame **ret_view) MUST_CHECK;

/* Does it cover the whole, so that no view is needed? */
static inline bool frame_view_is_whole(const struct frame *whole, int64_t rows_begin,
                                       int64_t rows_end, enum split split)
{
    return split == SPLIT_NONE && rows_begin == 0 &&
           (rows_end == 0 || rows_end == frame_units(whole));
}

/* Do both have the same labels with the same numbers, so that rendered texts can be shared? True
 * for a view that drops no label. */
bool frame_view_keeps_labels(const struct frame *view, const struct frame *whole);

/* Is it a label of which the whole has units, and the view none? */
bool frame_view_drops_label(const struct frame *view, const char *text);

#endif
