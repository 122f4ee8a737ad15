/* SPDX-License-Identifier: MIT */
#include "sampler/stream/sampling_plan.h"

#include <stdlib.h>

#include "common/array.h"
#include "sampler/design/designs.h"

static enum error open_view(struct sampling_plan *plan, const struct split_shares *shares,
                            const struct stream_definition *definition)
{
    const struct frame *whole = plan->named->frame;
    plan->frame = whole;
    plan->label_texts = &plan->named->label_texts;
    if (frame_view_is_whole(whole, definition->rows_begin, definition->rows_end, definition->split))
        return OK;
    enum error error = shared_view_take(whole, definition->rows_begin, definition->rows_end, shares,
                                        definition->split, &plan->view);
    if (error)
        return error;
    plan->frame = shared_view_frame(plan->view);
    if (shared_view_texts(plan->view))
        plan->label_texts = shared_view_texts(plan->view);
    return OK;
}

static enum error open_order(struct sampling_plan *plan, const struct stream_definition *definition)
{
    struct design design = {
        .name = definition->design,
        .replacement = definition->replacement,
        .seed = definition->seed,
        .fields = definition->fields,
    };
    enum error error = order_new(plan->frame, &design, &plan->order);
    if (error)
        return error;
    plan->binding.units = frame_units(plan->frame);
    plan->binding.epoch_positions = order_epoch_positions(plan->order);
    plan->binding.order_version = ORDER_VERSION;
    frame_digest_text(frame_digest(plan->frame), plan->binding.digest);
    plan->batching = (struct batching){.order = plan->order,
                                       .epoch_positions = plan->binding.epoch_positions,
                                       .epochs = definition->epochs,
                                       .tail = definition->tail};
    return batching_check(&plan->batching);
}

enum error sampling_plan_open(const struct frame_set *frames, const struct split_shares *shares,
                              const struct stream_definition *definition,
                              struct sampling_plan **ret_plan)
{
    struct sampling_plan *plan = array_new(1, sizeof(*plan), "a sampling plan");
    if (!plan)
        return ERROR_MEMORY;
    atomic_init(&plan->holders, 1);
    plan->shares = definition->split == SPLIT_NONE ? shares : NULL;
    enum error error = frame_set_get(frames, definition->frame, &plan->named);
    if (!error)
        error = open_view(plan, shares, definition);
    if (!error)
        error = open_order(plan, definition);
    if (!error)
        error = tally_new(plan->frame, plan->order, &plan->tally);
    if (error) {
        sampling_plan_put(plan);
        return error;
    }
    *ret_plan = plan;
    return OK;
}

int64_t sampling_plan_whole_units(const struct sampling_plan *plan)
{
    return frame_units(plan->named->frame);
}

void sampling_plan_take(struct sampling_plan *plan)
{
    atomic_fetch_add_explicit(&plan->holders, 1, memory_order_relaxed);
}

void sampling_plan_put(struct sampling_plan *plan)
{
    if (!plan || atomic_fetch_sub_explicit(&plan->holders, 1, memory_order_acq_rel) > 1)
        return;
    tally_free(plan->tally);
    order_free(plan->order);
    shared_view_put(plan->view);
    free(plan);
}
