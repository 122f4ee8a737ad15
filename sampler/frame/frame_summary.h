/* SPDX-License-Identifier: MIT */
/* One-line descriptions of a frame for the log of `serve` and `build`, and for `info`. */
#ifndef SAMPLER_FRAME_FRAME_SUMMARY_H
#define SAMPLER_FRAME_FRAME_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/frame/frame.h"

/* "5000 units, 3 labels"; "1 unit without labels". `units`: N, or a part's. Returns `out`. */
#define FRAME_SIZE_BYTES 96
const char *frame_summary_size(const struct frame *frame, int64_t units,
                               char out[FRAME_SIZE_BYTES]);

/* More than FRAME_CLASSES_UNITS units, and more than half as many labels: the label is probably a
 * regression target or a name rather than a class, and stratifying by it achieves nothing. */
#define FRAME_CLASSES_UNITS 1000
bool frame_labels_are_hardly_classes(const struct frame *frame);

/* If so, warns and says what to do; `name` is the frame's. */
void frame_warn_of_labels(const struct frame *frame, const char *name);

#endif
