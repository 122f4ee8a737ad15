/* SPDX-License-Identifier: MIT */
/*
 * Splitting a block without vectors, which defines what the others do, and the choice among them.
 */
#include "sampler/shuffle/tree_split.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define VECTORS_FROM 8 /* fewer positions are not worth vectors */

static bool suits_any(const struct tree_cells *cells)
{
    (void)cells;
    return true;
}

/* No branch depends on where a position goes: half of them would be mispredicted. */
static uint32_t split_any(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                          uint32_t count, int64_t *ret_before)
{
    uint8_t goes_left[TREE_BLOCK];
    uint16_t right[TREE_BLOCK];
    uint32_t lefts = 0;
    uint32_t rights = 0;
    memset(goes_left, 0, count);
    *ret_before = tree_split_mark(cells, first, count, goes_left);
    for (uint32_t i = 0; i < count; i++) {
        bool is_left = goes_left[i];
        right[rights] = slots[i];
        slots[lefts] = slots[i];
        lefts += is_left;
        rights += !is_left;
    }
    /* cppcheck-suppress uninitvar ; the loop filled `rights` of them */
    memcpy(slots + lefts, right, rights * sizeof(*slots));
    return lefts;
}

/* Usual if there are many labels. */
static uint32_t split_one(const struct tree_cells *cells, int64_t first, int64_t *ret_before)
{
    uint8_t goes_left = 0;
    *ret_before = tree_split_mark(cells, first, 1, &goes_left);
    return goes_left / TREE_LEFT;
}

static const struct tree_splitter splitter_any = {"any processor", suits_any, split_any};

#if defined(__x86_64__)
const struct tree_splitter *const tree_splitters[] = {&tree_splitter_avx512, &tree_splitter_avx2,
                                                      &splitter_any, NULL};
#else
const struct tree_splitter *const tree_splitters[] = {&splitter_any, NULL};
#endif

static const struct tree_splitter *splitter_of(const struct tree_cells *cells)
{
    for (size_t i = 0; tree_splitters[i]; i++) {
        if (tree_splitters[i]->suits(cells))
            return tree_splitters[i];
    }
    return &splitter_any;
}

uint32_t tree_split(const struct tree_cells *cells, int64_t first, uint16_t *slots, uint32_t count,
                    int64_t *ret_before)
{
    assert(count <= TREE_BLOCK);
    if (count == 1)
        return split_one(cells, first, ret_before);
    if (count < VECTORS_FROM)
        return split_any(cells, first, slots, count, ret_before);
    return splitter_of(cells)->split(cells, first, slots, count, ret_before);
}
