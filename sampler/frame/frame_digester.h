/* SPDX-License-Identifier: MIT */
/*
 * Computes a frame's digest incrementally: XXH3-128 over a canonical form of the list in frame
 * order, independent of the store and of how the frame keeps it. All integers little-endian, 64
 * bits unless said otherwise:
 *
 *   "tombola frame 1\n", N
 *   ids       (first, count) of each longest run of consecutive ascending ids; (0, 0) ends them
 *   labels    0 when there is no such column; else 1 + are_integers, L, the names with their NULs
 *             in order, then 1 and the label of row 0 when label(row) = (row + that) mod L
 *             throughout, else 0 and N codes of 8 bits (L <= 2^8), 16 (L <= 2^16) or 32
 *   weights   0, or 1 and N doubles
 *   groups    as labels
 *
 * The calls come in this order. One thread at a time.
 */
#ifndef SAMPLER_FRAME_FRAME_DIGESTER_H
#define SAMPLER_FRAME_FRAME_DIGESTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/dictionary.h"
#include "sampler/frame/frame.h"

#define FRAME_DIGESTER_NUMBERS 512

struct frame_digester {
    void *state; /* owned */
    uint64_t run_first, run_count;
    uint64_t numbers[FRAME_DIGESTER_NUMBERS]; /* collected, then hashed together */
    size_t number_count;                      /* even */
};

enum error frame_digester_init(struct frame_digester *digester, int64_t units) MUST_CHECK;
void frame_digester_release(struct frame_digester *digester);

/* Ids in frame order, in parts of any size; or a run of `count` consecutive ones at once. */
void frame_digester_ids(struct frame_digester *digester, const uint64_t *ids, size_t count);
void frame_digester_ids32(struct frame_digester *digester, const uint32_t *ids, size_t count);
void frame_digester_id_run(struct frame_digester *digester, uint64_t first, uint64_t count);
void frame_digester_end_ids(struct frame_digester *digester);

/* A missing column of categories. */
void frame_digester_no_categories(struct frame_digester *digester);
/* A cyclic one starting at `shift`; or, `is_cyclic` false, one whose codes follow by
 * frame_digester_bytes() in packed_width(L - 1) bytes each. */
void frame_digester_categories(struct frame_digester *digester, const struct dictionary *dictionary,
                               bool is_cyclic, uint32_t shift);
/* `there`: the doubles follow by frame_digester_bytes(). */
void frame_digester_weights(struct frame_digester *digester, bool there);
void frame_digester_bytes(struct frame_digester *digester, const void *bytes, size_t length);

void frame_digester_finish(struct frame_digester *digester, struct frame_digest *ret_digest);

#endif
