/* SPDX-License-Identifier: MIT */
#include "loader/feed/rank_walk.h"

#include <inttypes.h>

#define PLACES_LIMIT (INT64_C(1) << 30) /* no product of two overflows */

static bool is_place(int64_t number, int64_t count)
{
    return count >= 0 && count <= PLACES_LIMIT && number >= 0 && number < (count > 0 ? count : 1);
}

enum error rank_walk_check(int64_t rank, int64_t world, int64_t part, int64_t parts)
{
    if (!is_place(rank, world))
        return error_set(ERROR_USAGE,
                         "a feed of rank %" PRId64 " of %" PRId64
                         "; ranks are 0 to world - 1, and world is 1 to %" PRId64,
                         rank, world, PLACES_LIMIT);
    if (!is_place(part, parts))
        return error_set(ERROR_USAGE,
                         "a feed of part %" PRId64 " of %" PRId64
                         "; parts are 0 to parts - 1, and there are 1 to %" PRId64,
                         part, parts, PLACES_LIMIT);
    return OK;
}

enum error rank_walk_begin(struct rank_walk *walk, int64_t batches)
{
    if (batches < 0 && walk->world > 1)
        return error_set(ERROR_USAGE,
                         "how many batches a stream of this design has, only its end shows: it "
                         "cannot be divided evenly among ranks; a stream without end can");
    walk->batches = batches < 0 ? INT64_MAX : batches;
    if (walk->parts == 0)
        walk->parts = 1;
    return OK;
}

/* Rounds go to the first part of all ranks, then to the second; this one's place among all. */
static int64_t place(const struct rank_walk *walk)
{
    return walk->part * walk->world + walk->rank;
}

static int64_t left(const struct rank_walk *walk)
{
    return walk->batches > walk->first ? walk->batches - walk->first : 0;
}

/* Batches that fill up the last round, or (negative) are left out. */
static int64_t filling(const struct rank_walk *walk)
{
    int64_t over = left(walk) % walk->world;
    return walk->pad && over > 0 ? walk->world - over : -over;
}

int64_t rank_walk_steps(const struct rank_walk *walk)
{
    if (walk->batches == INT64_MAX)
        return INT64_MAX;
    int64_t taken = left(walk) + filling(walk), places = walk->world * walk->parts;
    return taken / places + (place(walk) < taken % places);
}

int64_t rank_walk_steps_before(const struct rank_walk *walk, int64_t end)
{
    static const struct index_set none = {.count = 0};
    const struct index_set *done = walk->done ? walk->done : &none;
    int64_t steps = rank_walk_steps(walk), count = 0;
    if (end < INT64_MAX) {
        int64_t batches = end > walk->first ? end - walk->first : 0;
        int64_t rounds = batches / walk->world + (batches % walk->world > 0);
        int64_t before = rounds / walk->parts + (walk->part < rounds % walk->parts);
        steps = before < steps ? before : steps;
    }
    if (steps == INT64_MAX)
        return INT64_MAX;
    for (struct index_range gap = index_set_gap(done, 0, steps); gap.first < gap.end;
         gap = index_set_gap(done, gap.end, steps))
        count += gap.end - gap.first;
    return count;
}

int64_t rank_walk_left_out(const struct rank_walk *walk)
{
    return walk->batches == INT64_MAX || walk->pad ? 0 : -filling(walk);
}

int64_t rank_walk_batch(const struct rank_walk *walk, int64_t step)
{
    int64_t batch = walk->first + step * walk->world * walk->parts + place(walk);
    return batch < walk->batches ? batch : batch % walk->batches;
}

/* A batch that fills up the last round may precede this place's first one. */
int64_t rank_walk_round(const struct rank_walk *walk, int64_t batch)
{
    if (batch >= walk->first + place(walk))
        return batch - walk->rank;
    return walk->batches + filling(walk) - walk->world;
}

bool rank_walk_next(struct rank_walk *walk, int64_t most, struct grant *ret_grant)
{
    static const struct index_set none = {.count = 0};
    const struct index_set *done = walk->done ? walk->done : &none;
    struct index_range steps = index_set_gap(done, walk->step, rank_walk_steps(walk));
    if (steps.first >= steps.end || most == 0)
        return false;
    int64_t count = walk->world * walk->parts > 1 ? 1 : steps.end - steps.first;
    if (most >= 0 && count > most)
        count = most;
    walk->step = steps.first + count;
    *ret_grant = (struct grant){rank_walk_batch(walk, steps.first), count};
    return true;
}
