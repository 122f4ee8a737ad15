/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame_summary.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"
#include "common/text.h"

const char *frame_summary_size(const struct frame *frame, int64_t units, char out[FRAME_SIZE_BYTES])
{
    const char *word = text_plural(units, "unit", "units");
    uint32_t labels = frame_labels(frame);
    if (frame_has_labels(frame))
        snprintf(out, FRAME_SIZE_BYTES, "%" PRId64 " %s, %" PRIu32 " %s", units, word, labels,
                 text_plural(labels, "label", "labels"));
    else
        snprintf(out, FRAME_SIZE_BYTES, "%" PRId64 " %s without labels", units, word);
    return out;
}

bool frame_labels_are_hardly_classes(const struct frame *frame)
{
    int64_t units = frame_units(frame);
    return frame_has_labels(frame) && units > FRAME_CLASSES_UNITS &&
           (int64_t)frame_labels(frame) > units / 2;
}

void frame_warn_of_labels(const struct frame *frame, const char *name)
{
    char size[FRAME_SIZE_BYTES];
    if (!frame_labels_are_hardly_classes(frame))
        return;
    log_warning("%s: %s: nearly every unit has a label of its own, as numbers to predict are; "
                "design proportional, the default, then balances nothing and draws ten times "
                "slower and more. Serve with --design srs, or name a column of classes in the "
                "store's URI (?label=NAME)",
                name, frame_summary_size(frame, frame_units(frame), size));
}
