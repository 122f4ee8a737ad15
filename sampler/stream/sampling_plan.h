/* SPDX-License-Identifier: MIT */
/*
 * A definition applied to a frame: the view (rows, split), its order, the division into batches,
 * and data for responses. Immutable; any thread. Reference-counted: the last sampling_plan_put()
 * frees it.
 *
 * Opening one may read all units (splits, weights, groups): not on an event loop.
 */
#ifndef SAMPLER_STREAM_SAMPLING_PLAN_H
#define SAMPLER_STREAM_SAMPLING_PLAN_H

#include <stdatomic.h>

#include "common/error.h"
#include "sampler/build/frame_set.h"
#include "sampler/frame/label_texts.h"
#include "sampler/frame/shared_view.h"
#include "sampler/order/batching.h"
#include "sampler/order/order.h"
#include "sampler/stream/stream_definition.h"
#include "sampler/stream/tally.h"

struct sampling_plan {
    const struct named_frame *named; /* the whole frame; borrowed from the set */
    const struct frame *frame;       /* N units, L labels */
    struct order *order;             /* owned */
    struct batching batching;
    struct tally *tally;                   /* owned */
    const struct label_texts *label_texts; /* of `frame`: the whole's, or the view's */
    struct stream_binding binding;         /* digest of `frame`, N, M */

    struct shared_view *view;          /* taken; NULL: all of the whole */
    const struct split_shares *shares; /* borrowed; of split sides that it excludes; NULL: none */
    _Atomic int holders;
};

/* `frames` and `shares` (NULL without --splits) must outlive it. Errors: no such frame
 * (ERROR_NOT_FOUND); rows, split, design, fields or epochs that do not fit it (ERROR_USAGE). */
enum error sampling_plan_open(const struct frame_set *frames, const struct split_shares *shares,
                              const struct stream_definition *definition,
                              struct sampling_plan **ret_plan) MUST_CHECK;
/* Units of the whole frame, before rows and split. */
int64_t sampling_plan_whole_units(const struct sampling_plan *plan);
void sampling_plan_take(struct sampling_plan *plan);
/* NULL is legal. */
void sampling_plan_put(struct sampling_plan *plan);

#endif
