/* SPDX-License-Identifier: MIT */
#include "sampler/build/split_check.h"

#include "common/log.h"

/* The most units of a frame to check: labels beyond are not judged. Most frames need a few. */
#define UNITS_MOST (INT64_C(1) << 25)

static bool is_on_side(const struct frame *frame, const struct split_span *span, int64_t row)
{
    const struct partition *groups = frame_groups(frame);
    return groups ? split_span_has_text(
                        span, dictionary_text(&groups->dictionary, partition_category(groups, row)))
                  : split_span_has_id(span, frame_id(frame, row));
}

/* Does the label have a unit on that side? Checks about 1 / share of its units, or all if there is
 * none. */
static bool has_unit(const struct frame *frame, const struct split_span *span, uint32_t label,
                     int64_t *left)
{
    int64_t units = frame_label_units(frame, label);
    for (int64_t j = 0; *left > 0 && j < units; j++) {
        --*left;
        if (is_on_side(frame, span, frame_stratum_row(frame, label, j)))
            return true;
    }
    return *left == 0; /* not judged */
}

/* How many labels of the frame have no unit on that side, and the first of these. */
static uint32_t count_missing(const struct frame *frame, const struct split_shares *shares,
                              enum split split, uint32_t *ret_first)
{
    struct split_span span;
    uint32_t missing = 0;
    int64_t left = UNITS_MOST;
    split_span_init(&span, shares, split);
    for (uint32_t label = 0; label < frame_labels(frame) && left > 0; label++) {
        if (has_unit(frame, &span, label, &left))
            continue;
        if (missing++ == 0)
            *ret_first = label;
    }
    return missing;
}

static void check_side(const struct named_frame *named, const struct split_shares *shares,
                       enum split split)
{
    uint32_t first;
    uint32_t missing = count_missing(named->frame, shares, split, &first);
    if (missing == 0)
        return;
    log_event(LOG_WARNING,
              "labels have no unit on a side of the split: it is chosen by a hash of the id, or of "
              "the group",
              log_text("frame", named->name), log_text("side", split_name(split)),
              log_number("labels", missing),
              log_text("first", frame_label_text(named->frame, first)),
              log_number("units", frame_label_units(named->frame, first)));
}

void split_check_frames(const struct frame_set *frames, const struct split_shares *shares)
{
    for (size_t i = 0; i < frame_set_count(frames); i++) {
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            const struct named_frame *named = frame_set_at(frames, i);
            if (frame_has_labels(named->frame) && split_share(shares, split) > 0)
                check_side(named, shares, split);
        }
    }
}
