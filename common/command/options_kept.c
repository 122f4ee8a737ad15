/* SPDX-License-Identifier: MIT */
#include "common/command/options_kept.h"

#include <stdlib.h>

#include "common/array.h"

struct kept {
    struct kept *next;
    char text[];
};

static struct kept *kept_blocks;

void *options_keep(size_t bytes)
{
    struct kept *block = array_new(1, sizeof(*block) + bytes, "option values");
    if (!block)
        return NULL;
    block->next = kept_blocks;
    kept_blocks = block;
    return block->text;
}

void options_release(void)
{
    while (kept_blocks) {
        struct kept *next = kept_blocks->next;
        free(kept_blocks);
        kept_blocks = next;
    }
}
