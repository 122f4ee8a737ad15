/* SPDX-License-Identifier: MIT */
#include "loader/feed/rank_walk.h"

enum error rank_walk_begin(struct rank_walk *walk, int64_t batches)
{
    if (batches < 0 && walk->world > 1)
        return error_set(ERROR_USAGE,
                         "how many batches a stream of this design has, only its end shows: it "
                         "cannot be divided evenly among ranks; a stream without end can");
    walk->batches = batches < 0 ? INT64_MAX : batches;
    return OK;
}

int64_t rank_walk_steps(const struct rank_walk *walk)
{
    if (walk->batches == INT64_MAX)
        return INT64_MAX;
    int64_t left = walk->batches > walk->first ? walk->batches - walk->first : 0;
    return left / walk->world + (walk->pad && left % walk->world != 0);
}

int64_t rank_walk_left_out(const struct rank_walk *walk)
{
    int64_t steps = rank_walk_steps(walk);
    if (steps == INT64_MAX || walk->pad || walk->batches < walk->first)
        return 0;
    return walk->batches - walk->first - steps * walk->world;
}

int64_t rank_walk_batch(const struct rank_walk *walk, int64_t step)
{
    int64_t batch = walk->first + step * walk->world + walk->rank;
    return batch < walk->batches ? batch : batch % walk->batches;
}

bool rank_walk_next(struct rank_walk *walk, int64_t most, struct grant *ret_grant)
{
    static const struct index_set none = {.count = 0};
    const struct index_set *done = walk->done ? walk->done : &none;
    struct index_range steps = index_set_gap(done, walk->step, rank_walk_steps(walk));
    if (steps.first >= steps.end || most == 0)
        return false;
    int64_t count = walk->world > 1 ? 1 : steps.end - steps.first;
    if (most >= 0 && count > most)
        count = most;
    walk->step = steps.first + count;
    *ret_grant = (struct grant){rank_walk_batch(walk, steps.first), count};
    return true;
}
