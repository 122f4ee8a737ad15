#include "sampler/build/counting_sort.h"

#include <stdlib.h>

#include "common/array.h"

enum error counting_sort_init(struct counting_sort *places, unsigned runs, size_t kinds)
{
    *places = (struct counting_sort){.runs = runs, .kinds = kinds};
    for (unsigned run = 0; run < runs; run++) {
        places->next[run] = array_new(kinds, sizeof(*places->next[run]), "sorting");
        if (!places->next[run]) {
            counting_sort_release(places);
            return ERROR_MEMORY;
        }
    }
    return OK;
}

void counting_sort_release(struct counting_sort *places)
{
    for (unsigned run = 0; run < places->runs; run++)
        free(places->next[run]);
    *places = (struct counting_sort){.runs = 0};
}

uint64_t counting_sort_count(const struct counting_sort *places, size_t kind)
{
    uint64_t count = 0;
    for (unsigned run = 0; run < places->runs; run++)
        count += places->next[run][kind];
    return count;
}

static uint64_t start_of(const uint64_t *starts, const uint32_t *ranks, size_t kind)
{
    return starts[ranks ? ranks[kind] : kind];
}

void counting_sort_sum(struct counting_sort *places, const uint64_t *starts, const uint32_t *ranks)
{
    for (size_t kind = 0; kind < places->kinds; kind++) {
        uint64_t place = start_of(starts, ranks, kind);
        for (unsigned run = 0; run < places->runs; run++) {
            uint64_t count = places->next[run][kind];
            places->next[run][kind] = place;
            place += count;
        }
    }
}

/* Where a run has ended, the next one began. */
void counting_sort_rewind(struct counting_sort *places, const uint64_t *starts,
                          const uint32_t *ranks)
{
    uint64_t *last = places->next[places->runs - 1];
    for (unsigned run = places->runs - 1; run > 0; run--)
        places->next[run] = places->next[run - 1];
    places->next[0] = last;
    for (size_t kind = 0; kind < places->kinds; kind++)
        last[kind] = start_of(starts, ranks, kind);
}
