/* SPDX-License-Identifier: MIT */
/*
 * next[run][kind] is first the run's number of rows of the kind, then the place of its next one.
 * Both use the same memory, so that each run touches one array of K entries, which no other thread
 * writes: no atomics, no false sharing except at the arrays' ends.
 *
 * starts[kind] + counts of runs 0 ... r - 1 is where run r begins; after a placing pass every run's
 * next[kind] stands where run r + 1 began: counting_sort_rewind() uses that.
 */
#include "sampler/build/counting_sort.h"

#include <stdlib.h>

#include "common/array.h"

enum error counting_sort_init(struct counting_sort *sort, unsigned runs, size_t kinds)
{
    *sort = (struct counting_sort){.runs = runs, .kinds = kinds};
    for (unsigned run = 0; run < runs; run++) {
        sort->next[run] = array_new(kinds, sizeof(*sort->next[run]), "sorting");
        if (!sort->next[run]) {
            counting_sort_release(sort);
            return ERROR_MEMORY;
        }
    }
    return OK;
}

void counting_sort_release(struct counting_sort *sort)
{
    for (unsigned run = 0; run < sort->runs; run++)
        free(sort->next[run]);
    *sort = (struct counting_sort){.runs = 0};
}

uint64_t counting_sort_count(const struct counting_sort *sort, size_t kind)
{
    uint64_t count = 0;
    for (unsigned run = 0; run < sort->runs; run++)
        count += sort->next[run][kind];
    return count;
}

static uint64_t start_of(const uint64_t *starts, const uint32_t *ranks, size_t kind)
{
    return starts[ranks ? ranks[kind] : kind];
}

/* [K] by [R], for each kind over all runs: R arrays are read in parallel, R <= TEAM_LIMIT
 * streams. */
void counting_sort_sum(struct counting_sort *sort, const uint64_t *starts, const uint32_t *ranks)
{
    for (size_t kind = 0; kind < sort->kinds; kind++) {
        uint64_t place = start_of(starts, ranks, kind);
        for (unsigned run = 0; run < sort->runs; run++) {
            uint64_t count = sort->next[run][kind];
            sort->next[run][kind] = place;
            place += count;
        }
    }
}

/* Where one run ended, the next one began. */
void counting_sort_rewind(struct counting_sort *sort, const uint64_t *starts, const uint32_t *ranks)
{
    uint64_t *last = sort->next[sort->runs - 1];
    for (unsigned run = sort->runs - 1; run > 0; run--)
        sort->next[run] = sort->next[run - 1];
    sort->next[0] = last;
    for (size_t kind = 0; kind < sort->kinds; kind++)
        last[kind] = start_of(starts, ranks, kind);
}
