#include "sampler/stream/sampling_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "sampler/frame/frame_view.h"

static enum error open_view(struct walk *walk, const struct split_shares *shares,
                            const struct stream_definition *definition)
{
    const struct frame *whole = walk->named->frame;
    walk->frame = whole;
    walk->label_texts = &walk->named->label_texts;
    if (frame_view_is_whole(whole, definition->rows_begin, definition->rows_end, definition->split))
        return OK;
    enum error error = frame_view(whole, definition->rows_begin, definition->rows_end, shares,
                                  definition->split, &walk->view);
    if (error)
        return error;
    walk->frame = walk->view;
    if (frame_view_keeps_labels(walk->view, whole))
        return OK;
    walk->label_texts = &walk->own_texts;
    return label_texts_init(&walk->own_texts, walk->view);
}

static enum error open_order(struct walk *walk, const struct stream_definition *definition)
{
    struct design design = {
        .name = definition->design,
        .replacement = definition->replacement,
        .seed = definition->seed,
        .fields = definition->fields,
    };
    enum error error = order_new(walk->frame, &design, &walk->order);
    if (error)
        return error;
    walk->binding.units = frame_units(walk->frame);
    walk->binding.epoch_positions = order_epoch_positions(walk->order);
    frame_digest_text(frame_digest(walk->frame), walk->binding.digest);
    walk->cut = (struct cut){.order = walk->order,
                             .epoch_positions = walk->binding.epoch_positions,
                             .epochs = definition->epochs,
                             .tail = definition->tail};
    return cut_check(&walk->cut);
}

enum error walk_open(const struct frame_set *frames, const struct split_shares *shares,
                     const struct stream_definition *definition, struct walk **ret_walk)
{
    struct walk *walk = array_new(1, sizeof(*walk), "a stream's walk");
    if (!walk)
        return ERROR_MEMORY;
    atomic_init(&walk->holders, 1);
    enum error error = frame_set_get(frames, definition->frame, &walk->named);
    if (!error)
        error = open_view(walk, shares, definition);
    if (!error)
        error = open_order(walk, definition);
    if (!error)
        error = tally_new(walk->frame, walk->order, &walk->tally);
    if (error) {
        walk_put(walk);
        return error;
    }
    *ret_walk = walk;
    return OK;
}

int64_t walk_whole_units(const struct walk *walk)
{
    return frame_units(walk->named->frame);
}

void walk_take(struct walk *walk)
{
    atomic_fetch_add_explicit(&walk->holders, 1, memory_order_relaxed);
}

void walk_put(struct walk *walk)
{
    if (!walk || atomic_fetch_sub_explicit(&walk->holders, 1, memory_order_acq_rel) > 1)
        return;
    tally_free(walk->tally);
    order_free(walk->order);
    if (walk->label_texts == &walk->own_texts)
        label_texts_release(&walk->own_texts);
    frame_free(walk->view);
    free(walk);
}
