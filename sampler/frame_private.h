/* What a frame is made of; for frame*.c only. */
#ifndef SAMPLER_FRAME_PRIVATE_H
#define SAMPLER_FRAME_PRIVATE_H

#include "sampler/frame.h"
#include "sampler/frame_file.h"

struct frame {
    int64_t units;
    struct frame_digest digest;
    bool has_labels, has_groups;
    struct id_column ids;
    struct partition labels;
    struct partition groups; /* has_groups */
    double *weights;         /* [N], or NULL; owned unless mapped */
    struct mapped_file file; /* what a mapped frame lies in; else empty */
};

/* Fills frame->digest from all the rest. O(N) for what is stored, O(L) for what is not. */
enum error frame_digest_compute(struct frame *frame) MUST_CHECK;

#endif
