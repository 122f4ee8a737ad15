/* SPDX-License-Identifier: MIT */
/*
 * A parallel, stable counting sort. The rows are divided into contiguous runs; each run counts its
 * rows of each kind, which determines where they go: after those of earlier kinds, and of earlier
 * runs. So rows of a kind keep their order.
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
    /* [R][K]: while counting, the run's rows of the kind; then the place of its next one. One
     * thread per run. */
    uint64_t *next[TEAM_LIMIT];
};

/* Zeroed counts. */
enum error counting_sort_init(struct counting_sort *sort, unsigned runs, size_t kinds) MUST_CHECK;
void counting_sort_release(struct counting_sort *sort);

/* Counted rows of this kind, over all runs. */
uint64_t counting_sort_count(const struct counting_sort *sort, size_t kind);

/* After counting: rows of kind k go to starts[k] and up; with `ranks` to starts[ranks[k]]. */
void counting_sort_sum(struct counting_sort *sort, const uint64_t *starts, const uint32_t *ranks);
/* Returns to the state after counting_sort_sum(), once every run has placed all its rows. */
void counting_sort_rewind(struct counting_sort *sort, const uint64_t *starts,
                          const uint32_t *ranks);

#endif
