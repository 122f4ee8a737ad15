/* SPDX-License-Identifier: MIT */
/* Parts of a frame; for frame*.c only. */
#ifndef SAMPLER_FRAME_FRAME_PRIVATE_H
#define SAMPLER_FRAME_FRAME_PRIVATE_H

#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"

struct frame {
    int64_t units;
    struct frame_digest digest;
    bool has_labels, has_groups;
    struct id_column ids;
    struct partition labels;
    struct partition groups; /* has_groups */
    double *weights;         /* [N], or NULL; owned unless mapped or plain rows of a view */
    struct mapped_file file; /* holds a mapped frame, also in memory; else empty */
    /* for a view */
    const struct frame *whole;  /* borrowed; NULL: not a view */
    struct frame *rows;         /* owned: the plain rows that `chosen` selects from; or NULL */
    struct rank_bitmap *chosen; /* owned; NULL: plain rows */
};

/* Computes frame->digest from everything else. O(N) for stored parts, O(L) for others. */
enum error frame_digest_compute(struct frame *frame) MUST_CHECK;

#endif
