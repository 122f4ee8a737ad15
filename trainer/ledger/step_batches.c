/* SPDX-License-Identifier: MIT */
#include "trainer/ledger/step_batches.h"

int64_t step_batches_at(const struct index_set *applied, int64_t place, int64_t end)
{
    struct index_range gap = index_set_gap(applied, 0, end);
    while (gap.first < gap.end && gap.end - gap.first <= place) {
        place -= gap.end - gap.first;
        gap = index_set_gap(applied, gap.end, end);
    }
    return gap.first < gap.end ? gap.first + place : -1;
}

enum error step_batches_apply(struct index_set *applied, int64_t count, int64_t end)
{
    enum error error = OK;
    while (count > 0 && !error) {
        struct index_range gap = index_set_gap(applied, 0, end);
        if (gap.first >= gap.end)
            return OK;
        if (gap.end - gap.first > count)
            gap.end = gap.first + count;
        count -= gap.end - gap.first;
        error = index_set_add(applied, gap);
    }
    return error;
}
