/* SPDX-License-Identifier: MIT */
/*
 * cluster: m whole groups in random order (all of them by default), the units of a group together,
 * in frame order. If groups differ in size, a position is found by the sums of the sizes before
 * each PLACES groups of the epoch's order, a table of 8 bytes per PLACES groups that is made once
 * per epoch (epoch_tables.h); if all have one size, by a division.
 *
 * M is N, or, with m below the number of groups, the units of the m largest groups: positions after
 * the last unit of an epoch are skipped.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"
#include "sampler/design/epoch_tables.h"
#include "sampler/shuffle/permutation.h"

#define PLACES 64
#define S_TRIES 40

struct cluster {
    const struct partition *groups;
    int64_t taken;               /* m */
    int64_t same_units;          /* all groups are of this size; 0: they differ */
    int64_t blocks;              /* of PLACES groups, m of them in all */
    double hopeless_units;       /* so many, or more, no epoch will have */
    struct epoch_tables *tables; /* [blocks + 1] units before; NULL: all of one size */
};

static const struct cluster *cluster_of(const struct order *order)
{
    return order->own;
}

/* ---- life cycle --------------------------------------------------------- */

static int compare_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Chernoff's bound on the sum of m sizes drawn with replacement holds without it, too (Hoeffding
 * 1963, theorem 4): P(sum >= t) <= exp(m ln(mean(exp(s size))) - s t), for any s > 0. Returns
 * nearly the least t for which this is 1 / ORDER_HOPELESS_EPOCHS; no s below the first gives it,
 * since a variance is at most 1/4. Sizes are in units of the largest, so that nothing overflows. */
static double find_hopeless(const int64_t *sizes, uint32_t count, double taken)
{
    double largest = (double)sizes[0], rarity = log(ORDER_HOPELESS_EPOCHS), least = INFINITY;
    double s = sqrt(8 * rarity / taken);
    for (int tries = 0; tries < S_TRIES; tries++, s *= 1.5) {
        double sum = 0;
        for (uint32_t group = 0, next = 0; group < count; group = next) {
            while (next < count && sizes[next] == sizes[group])
                next++; /* sizes are sorted, and few differ */
            sum += (next - group) * exp(s * ((double)sizes[group] / largest - 1));
        }
        double t = (taken * (s + log(sum / count)) + rarity) / s;
        if (t >= least)
            break; /* it has one minimum */
        least = t;
    }
    return least * largest;
}

/* Sets M, how many units are hopeless, and whether the groups are of one size. */
static enum error survey(struct order *order, struct cluster *cluster)
{
    uint32_t count = cluster->groups->count;
    int64_t *sizes = array_new(count, sizeof(*sizes), "the groups' sizes");
    if (!sizes)
        return ERROR_MEMORY;
    for (uint32_t group = 0; group < count; group++)
        sizes[group] = partition_units(cluster->groups, group);
    qsort(sizes, count, sizeof(*sizes), compare_down);
    cluster->same_units = sizes[0] == sizes[count - 1] ? sizes[0] : 0;
    order->epoch_positions = 0;
    for (int64_t i = 0; i < cluster->taken; i++)
        order->epoch_positions += sizes[i];
    order->skips_positions = cluster->taken < count && cluster->same_units == 0;
    cluster->hopeless_units =
        order->skips_positions ? find_hopeless(sizes, count, (double)cluster->taken) : INFINITY;
    free(sizes);
    order->epoch_units =
        (double)frame_units(order->frame) * ((double)cluster->taken / (double)count);
    return OK;
}

static enum error check(const struct order *order, const struct design_fields *fields)
{
    const struct partition *groups = frame_groups(order->frame);
    if (!groups)
        return error_set(ERROR_USAGE, "design cluster needs groups, and the frame has none; name a "
                                      "group column in the store's URI, as "
                                      "csv:train.csv?group=COLUMN");
    if (fields->groups > groups->count)
        return error_set(ERROR_USAGE,
                         "groups is %" PRId64 "; right is 1 to %" PRIu32
                         ", the groups of the frame",
                         fields->groups, groups->count);
    return OK;
}

static void cluster_release(struct order *order)
{
    struct cluster *cluster = order->own;
    epoch_tables_free(cluster->tables);
    free(cluster);
}

static enum error cluster_init(struct order *order, const struct design_fields *fields)
{
    enum error error = check(order, fields);
    if (error)
        return error;
    struct cluster *cluster = array_new(1, sizeof(*cluster), "a design");
    if (!cluster)
        return ERROR_MEMORY;
    order->own = cluster;
    cluster->groups = frame_groups(order->frame);
    cluster->taken = fields->groups > 0 ? fields->groups : cluster->groups->count;
    cluster->blocks = (cluster->taken + PLACES - 1) / PLACES;
    error = survey(order, cluster);
    if (!error && cluster->same_units == 0)
        error =
            epoch_tables_new((size_t)cluster->blocks + 1, "the places of groups", &cluster->tables);
    if (error)
        cluster_release(order);
    return error;
}

/* ---- groups in the epoch's order ---------------------------------------- */

/* The groups at places first ... first + PLACES - 1, or fewer at the end; returns their number. */
static size_t groups_at(const struct order *order, const struct epoch *epoch, int64_t first,
                        uint64_t ret_groups[PLACES])
{
    const struct cluster *cluster = cluster_of(order);
    int64_t left = cluster->taken - first;
    struct permutation_run run = {.units = cluster->groups->count,
                                  .key = random_at(epoch->units, 0),
                                  .first = (uint64_t)first,
                                  .count = (size_t)(left < PLACES ? left : PLACES)};
    permutation_runs(&run, 1, ret_groups);
    return run.count;
}

static void fill_table(const struct order *order, const struct epoch *epoch, int64_t *before)
{
    const struct cluster *cluster = cluster_of(order);
    before[0] = 0;
    for (int64_t block = 0; block < cluster->blocks; block++) {
        uint64_t groups[PLACES];
        size_t count = groups_at(order, epoch, block * PLACES, groups);
        before[block + 1] = before[block];
        for (size_t i = 0; i < count; i++)
            before[block + 1] += partition_units(cluster->groups, (uint32_t)groups[i]);
    }
}

static int64_t epoch_units(const struct order *order, const struct epoch *epoch)
{
    const struct cluster *cluster = cluster_of(order);
    if (!cluster->tables)
        return order->epoch_positions;
    const int64_t *before = epoch_tables_borrow(cluster->tables, order, epoch, fill_table);
    int64_t units = before[cluster->blocks];
    epoch_tables_put(cluster->tables, before);
    return units;
}

/* ---- positions to rows -------------------------------------------------- */

/* A cursor over the epoch's groups. */
struct place {
    int64_t block;
    uint64_t groups[PLACES];
    size_t count; /* of groups */
    size_t at;    /* in groups */
    int64_t unit; /* within that group */
};

static void open_block(const struct order *order, const struct epoch *epoch, int64_t block,
                       struct place *place)
{
    place->block = block;
    place->count = groups_at(order, epoch, block * PLACES, place->groups);
    place->at = 0;
}

/* Moves to the unit at position p, which must exist. */
static void find_place(const struct order *order, const struct epoch *epoch, int64_t p,
                       struct place *place)
{
    const struct cluster *cluster = cluster_of(order);
    if (!cluster->tables) {
        open_block(order, epoch, p / cluster->same_units / PLACES, place);
        place->at = (size_t)(p / cluster->same_units % PLACES);
        place->unit = p % cluster->same_units;
        return;
    }
    const int64_t *before = epoch_tables_borrow(cluster->tables, order, epoch, fill_table);
    int64_t low = epoch_table_find(before, cluster->blocks, p);
    int64_t left = p - before[low];
    epoch_tables_put(cluster->tables, before);
    open_block(order, epoch, low, place);
    for (;;) {
        int64_t units = partition_units(cluster->groups, (uint32_t)place->groups[place->at]);
        if (left < units)
            break;
        left -= units;
        place->at++;
    }
    place->unit = left;
}

/* Takes at most `count` units of the current group, and moves past them. */
static size_t take(const struct order *order, const struct epoch *epoch, struct place *place,
                   size_t count, int64_t *ret_rows)
{
    const struct cluster *cluster = cluster_of(order);
    uint64_t ranks[ORDER_BLOCK];
    uint32_t group = (uint32_t)place->groups[place->at];
    int64_t left = partition_units(cluster->groups, group) - place->unit;
    size_t step = left < (int64_t)count ? (size_t)left : count;
    for (size_t i = 0; i < step; i++)
        ranks[i] = (uint64_t)place->unit + i;
    partition_gather(cluster->groups, group, ranks, step, ret_rows);
    place->unit += (int64_t)step;
    if ((int64_t)step < left)
        return step;
    place->unit = 0;
    if (++place->at == place->count && place->block + 1 < cluster->blocks)
        open_block(order, epoch, place->block + 1, place);
    return step;
}

static size_t cluster_units(const struct order *order, const struct epoch *epoch, int64_t first,
                            size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    struct place place;
    int64_t end = order->skips_positions ? epoch_units(order, epoch) : order->epoch_positions;
    if (first >= end)
        return 0;
    if (end - first < (int64_t)count)
        count = (size_t)(end - first);
    find_place(order, epoch, first, &place);
    for (size_t done = 0; done < count;)
        done += take(order, epoch, &place, count - done, ret_rows + done);
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, count, ret_labels);
    return count;
}

/* ---- and back ----------------------------------------------------------- */

static int64_t start_of_place(const struct order *order, const struct epoch *epoch, int64_t place)
{
    const struct cluster *cluster = cluster_of(order);
    if (!cluster->tables)
        return place * cluster->same_units;
    const int64_t *before = epoch_tables_borrow(cluster->tables, order, epoch, fill_table);
    int64_t start = before[place / PLACES];
    uint64_t groups[PLACES];
    epoch_tables_put(cluster->tables, before);
    (void)groups_at(order, epoch, place / PLACES * PLACES, groups);
    for (int64_t i = 0; i < place % PLACES; i++)
        start += partition_units(cluster->groups, (uint32_t)groups[i]);
    return start;
}

static int64_t cluster_position(const struct order *order, const struct epoch *epoch, int64_t row)
{
    const struct cluster *cluster = cluster_of(order);
    struct permutation places;
    permutation_init(&places, cluster->groups->count, random_at(epoch->units, 0));
    uint32_t group = partition_category(cluster->groups, row);
    int64_t place = (int64_t)permutation_find(&places, group);
    if (place >= cluster->taken)
        return -1;
    return start_of_place(order, epoch, place) + partition_rank(cluster->groups, row);
}

static double cluster_probability(const struct order *order, int64_t row)
{
    (void)row;
    return (double)cluster_of(order)->taken / (double)cluster_of(order)->groups->count;
}

/* ---- positions that are skipped: those behind the last unit ------------- */

static int64_t cluster_count(const struct order *order, const struct epoch *epoch, int64_t first,
                             int64_t positions)
{
    int64_t left = epoch_units(order, epoch) - first;
    left = left > 0 ? left : 0;
    return left < positions ? left : positions;
}

static int64_t cluster_reach(const struct order *order, const struct epoch *epoch, int64_t first,
                             int64_t units, int64_t *ret_units)
{
    int64_t left = cluster_count(order, epoch, first, order->epoch_positions - first);
    *ret_units = units < left ? units : left;
    return units < left ? units : order->epoch_positions - first;
}

static bool cluster_may_have(const struct order *order, int64_t units)
{
    return (double)units < cluster_of(order)->hopeless_units;
}

static int64_t cluster_unit_position(const struct order *order, const struct epoch *epoch,
                                     int64_t j)
{
    (void)order;
    (void)epoch;
    return j;
}

const struct design_ops design_cluster = {
    .name = "cluster",
    .init = cluster_init,
    .release = cluster_release,
    .units = cluster_units,
    .position = cluster_position,
    .probability = cluster_probability,
    .reach = cluster_reach,
    .count = cluster_count,
    .may_have = cluster_may_have,
    .unit_position = cluster_unit_position,
};
