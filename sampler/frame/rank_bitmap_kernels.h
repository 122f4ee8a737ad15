/* SPDX-License-Identifier: MIT */
/*
 * Rank and select of many positions, one kernel per instruction set; all give the same values.
 * Tests run each that the processor supports.
 */
#ifndef SAMPLER_FRAME_RANK_BITMAP_KERNELS_H
#define SAMPLER_FRAME_RANK_BITMAP_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/frame/rank_bitmap.h"

struct rank_bitmap_kernel {
    const char *name;
    bool (*is_supported)(void);
    void (*rank)(const struct rank_bitmap *bitmap, const int64_t *positions, size_t count,
                 int64_t *ret_ranks);
    void (*select)(const struct rank_bitmap *bitmap, const int64_t *ks, size_t count,
                   int64_t *ret_positions);
};

/* Widest first; the last one runs everywhere. NULL-terminated. */
extern const struct rank_bitmap_kernel *const rank_bitmap_kernels[];

/* The first that this processor supports. */
const struct rank_bitmap_kernel *rank_bitmap_kernel(void);

#endif
