/* SPDX-License-Identifier: MIT */
/* Names that were chosen to collide, and how far a search in a hash table may go. */
#ifndef TESTS_UNIT_COLLIDING_UNIT_H
#define TESTS_UNIT_COLLIDING_UNIT_H

#include <string.h>
#include <xxhash.h>

#include "common/hash_table.h"

enum { COLLIDING = 2000, COLLIDING_BYTES = 24, RUN_MOST = 150 };

/* The next name whose hash without a secret has the last 13 bits of all of them. Eight thousand are
 * tried for each: printf() would take most of the time. */
static inline void collide(char name[COLLIDING_BYTES], uint32_t *number)
{
    do {
        memcpy(name, "n00000000", 10);
        uint32_t left = (*number)++;
        for (char *digit = name + 8; left; digit--, left >>= 4)
            *digit = "0123456789abcdef"[left & 15];
    } while (XXH3_64bits(name, 9) & 8191);
}

/* The most slots side by side that are taken: so far may a search go. */
static inline size_t longest_run(const struct hash_table *table)
{
    size_t longest = 0, run = 0;
    for (size_t slot = 0; slot <= table->slot_mask; slot++) {
        run = table->slots[slot] != 0 ? run + 1 : 0;
        if (run > longest)
            longest = run;
    }
    return longest;
}

#endif
