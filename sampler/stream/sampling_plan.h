/*
 * What a definition makes of a frame: the view (rows, split), the order of it, the cut into
 * batches, and what answers need. Immutable; any thread. Counted: the last walk_put() frees it.
 *
 * Opening one may read all units (splits, weights, groups): not on an event loop.
 */
#ifndef SAMPLER_STREAM_SAMPLING_PLAN_H
#define SAMPLER_STREAM_SAMPLING_PLAN_H

#include <stdatomic.h>

#include "common/error.h"
#include "sampler/build/frame_set.h"
#include "sampler/frame/label_texts.h"
#include "sampler/order/batching.h"
#include "sampler/order/order.h"
#include "sampler/stream/stream_definition.h"
#include "sampler/stream/tally.h"

struct walk {
    const struct named_frame *named; /* the whole frame; borrowed from the set */
    const struct frame *frame;       /* what is walked: N units, L labels */
    struct order *order;             /* owned */
    struct cut cut;
    struct tally *tally;                   /* owned */
    const struct label_texts *label_texts; /* of `frame`: the whole's, or own_texts */
    struct stream_binding binding;         /* digest of `frame`, N, M */

    struct frame *view; /* owned; NULL: all of the whole */
    struct label_texts own_texts;
    _Atomic int holders;
};

/* `frames` and `shares` (NULL without --splits) must outlive it. Errors: no such frame
 * (ERROR_NOT_FOUND), rows, split, design, fields or epochs that do not fit it (ERROR_USAGE). */
enum error walk_open(const struct frame_set *frames, const struct split_shares *shares,
                     const struct stream_definition *definition, struct walk **ret_walk) MUST_CHECK;
/* Units of the whole frame, before rows and split. */
int64_t walk_whole_units(const struct walk *walk);
void walk_take(struct walk *walk);
/* NULL is legal. */
void walk_put(struct walk *walk);

#endif
