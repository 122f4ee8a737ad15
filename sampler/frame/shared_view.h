/* SPDX-License-Identifier: MIT */
/*
 * One view shared by all users of the same rows and the same side of a split: the first user
 * creates it, reading N units; concurrent users wait for it; the last one frees it. Immutable; any
 * thread.
 */
#ifndef SAMPLER_FRAME_SHARED_VIEW_H
#define SAMPLER_FRAME_SHARED_VIEW_H

#include "common/error.h"
#include "sampler/frame/frame_view.h"
#include "sampler/frame/label_texts.h"

struct shared_view;

/* Parameters and errors of frame_view(); shares are compared by pointer, and must outlive it. The
 * view is taken. */
enum error shared_view_take(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                            const struct split_shares *shares, enum split split,
                            struct shared_view **ret_view) MUST_CHECK;
/* NULL is legal. */
void shared_view_put(struct shared_view *view);

/* Borrowed while it is taken. */
const struct frame *shared_view_frame(const struct shared_view *view);
/* NULL: it has the labels of the whole, with the same numbers. */
const struct label_texts *shared_view_texts(const struct shared_view *view);

#endif
