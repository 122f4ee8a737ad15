/* SPDX-License-Identifier: MIT */
/*
 * A counting sort by several threads at once. The rows are cut into runs of neighbours; each run
 * counts its own rows of each kind, and then knows where they go: behind those of the kinds before,
 * and of the runs before. So rows of a kind keep their order.
 *
 * Dimensions: R runs, K kinds.
 */
#ifndef SAMPLER_BUILD_COUNTING_SORT_H
#define SAMPLER_BUILD_COUNTING_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/team.h"

struct counting_sort {
    unsigned runs; /* R */
    size_t kinds;  /* K */
    /* [R][K]: how many rows a run has of the kind, as long as they are counted; then where its next
     * one goes. One thread a run. */
    uint64_t *next[TEAM_LIMIT];
};

/* Zeroed counts. */
enum error counting_sort_init(struct counting_sort *sort, unsigned runs, size_t kinds) MUST_CHECK;
void counting_sort_release(struct counting_sort *sort);

/* All rows of kind k that were counted. */
uint64_t counting_sort_count(const struct counting_sort *sort, size_t kind);

/* After the counting: rows of kind k go to starts[k] and on; with `ranks` to starts[ranks[k]]. */
void counting_sort_sum(struct counting_sort *sort, const uint64_t *starts, const uint32_t *ranks);
/* Back to the state behind counting_sort_sum(), after every run has placed all of its rows. */
void counting_sort_rewind(struct counting_sort *sort, const uint64_t *starts,
                          const uint32_t *ranks);

#endif
