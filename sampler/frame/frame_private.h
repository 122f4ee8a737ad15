/* SPDX-License-Identifier: MIT */
/* What a frame is made of; for frame*.c only. */
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
    struct mapped_file file; /* what a mapped frame lies in, also in memory; else empty */
    /* of a view */
    const struct frame *whole; /* borrowed; NULL: no view */
    struct frame *rows;        /* owned: the plain rows of the whole that `chosen` is of; or NULL */
    struct rank_bitmap *chosen; /* owned; NULL: plain rows */
};

/* Fills frame->digest from all the rest. O(N) for what is stored, O(L) for what is not. */
enum error frame_digest_compute(struct frame *frame) MUST_CHECK;

#endif
