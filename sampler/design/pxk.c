/* SPDX-License-Identifier: MIT */
/*
 * pxk: batches of p labels with k units each. One endless walk, which epochs only subdivide: global
 * position = batch * p k + turn in the batch * k + unit in the turn.
 *
 * It consists of two walks of the same kind. The labels': turn t (of all turns, p per batch) is
 * draw t, in round t div L, in which every label has exactly one turn; the p consecutive draws of a
 * batch are p different labels. A label's units': its turn number is the round, so that its draws
 * are g = round * k + i; the k consecutive draws of a turn are k different units.
 *
 * A walk goes through its n items pass by pass. Draws that must differ (a batch's labels, a turn's
 * units), s of them, may span two passes, the last a items of the one and the first b = s - a of
 * the other:
 *   n >= 3 s, s <= SEAM_ITEMS  every pass has a permutation of its own. Those of the first b items
 *                   of a pass that are among the last a of the pass before are exchanged, the t-th
 *                   of them with the t-th item of places b ... b + a - 1 that is not: there are
 *                   enough, since a such places hold at most a less those that stand in front. The
 *                   last places of a pass stay as they are (n >= 3 s), so that no pass depends on
 *                   one before the last.
 *   else            passes share one permutation in groups of s / gcd(n, s), which are a multiple
 *                   of s draws: s draws in a row within a group differ because s <= n.
 * Either way every pass has each item once, and each draw is uniform over the items.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/divisor.h"
#include "common/text.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/design_strata.h"
#include "sampler/design/designs.h"
#include "sampler/shuffle/permutation.h"

#define SEAM_ITEMS 256
#define POSITIONS_LIMIT (INT64_C(1) << 62)

struct turns {
    int64_t labels_a_batch, units_a_label; /* p, k */
    int64_t labels;                        /* L */
};

static const struct turns *turns_of(const struct order *order)
{
    return order->own;
}

/* ---- life cycle --------------------------------------------------------- */

static enum error check(const struct order *order, const struct design_fields *fields,
                        int64_t *ret_largest)
{
    const struct frame *frame = order->frame;
    uint32_t labels = frame_labels(frame);
    uint32_t smallest = 0;
    int64_t largest = 0;
    if (fields->p > labels)
        return error_set(ERROR_USAGE,
                         "p is %" PRId64 "; right is 1 to %" PRIu32 ", the labels of the frame",
                         fields->p, labels);
    for (uint32_t label = 0; label < labels; label++) {
        int64_t units = frame_label_units(frame, label);
        if (units < frame_label_units(frame, smallest))
            smallest = label;
        if (units > largest)
            largest = units;
    }
    int64_t fewest = frame_label_units(frame, smallest);
    if (fields->k > fewest)
        return error_set(ERROR_USAGE,
                         "k is %" PRId64 ", but label \"%s\" has %" PRId64
                         " %s; right is 1 to %" PRId64,
                         fields->k, frame_label_text(frame, smallest), fewest,
                         text_plural(fewest, "unit", "units"), fewest);
    *ret_largest = largest;
    return OK;
}

static enum error pxk_init(struct order *order, const struct design_fields *fields)
{
    int64_t largest = 0;
    int64_t positions;
    int64_t labels = frame_labels(order->frame);
    enum error error = design_need_labels(order);
    if (!error)
        error = check(order, fields, &largest);
    if (error)
        return error;
    int64_t batch = fields->p * fields->k; /* at most L times a label's units */
    if (__builtin_mul_overflow(largest, labels, &positions) || positions >= POSITIONS_LIMIT - batch)
        return error_set(ERROR_USAGE,
                         "design pxk: an epoch would pass 2^62 draws, %" PRId64
                         " labels times the %" PRId64 " units of the largest",
                         labels, largest);
    struct turns *turns = malloc(sizeof(*turns));
    if (!turns)
        return error_set_memory(sizeof(*turns), "a design");
    *turns = (struct turns){
        .labels_a_batch = fields->p,
        .units_a_label = fields->k,
        .labels = labels,
    };
    order->own = turns;
    order->repeats = true;
    order->batch_size = batch;
    order->epoch_positions = (positions + batch - 1) / batch * batch;
    return OK;
}

static void pxk_release(struct order *order)
{
    free(order->own);
}

/* ---- walks -------------------------------------------------------------- */

struct walk {
    int64_t items;          /* n */
    int64_t apart;          /* s */
    int64_t passes_a_group; /* 1: every pass has its own permutation */
    bool mends_seams;
    struct random_key key;
};

static struct walk walk_new(int64_t items, int64_t apart, struct random_key key)
{
    bool mends = apart <= SEAM_ITEMS && items / 3 >= apart;
    int64_t passes = mends ? 1 : apart / common_divisor(items, apart);
    assert(passes >= 1);
    return (struct walk){
        .items = items,
        .apart = apart,
        .passes_a_group = passes,
        .mends_seams = mends,
        .key = key,
    };
}

static struct walk walk_of_labels(const struct order *order)
{
    const struct turns *turns = turns_of(order);
    return walk_new(turns->labels, turns->labels_a_batch, random_key_at(order_walk_key(order), 0));
}

static struct walk walk_of_units(const struct order *order, uint32_t label)
{
    return walk_new(frame_label_units(order->frame, label), turns_of(order)->units_a_label,
                    random_key_at(random_key_at(order_walk_key(order), 1), label));
}

static uint64_t pass_key(const struct walk *walk, int64_t pass)
{
    return random_at(walk->key, (uint64_t)(pass / walk->passes_a_group));
}

static void init_pass(const struct walk *walk, int64_t pass, struct permutation *ret_pass)
{
    permutation_init(ret_pass, (uint64_t)walk->items, pass_key(walk, pass));
}

/* Exchanges at the head of a pass: places from[i] and to[i]. */
struct seam {
    int64_t end; /* places from here on are unchanged; 0: no seam */
    uint32_t count;
    int64_t from[SEAM_ITEMS], to[SEAM_ITEMS];
};

static bool holds(const uint64_t *units, int64_t count, uint64_t unit)
{
    for (int64_t i = 0; i < count; i++) {
        if (units[i] == unit)
            return true;
    }
    return false;
}

static void find_seam(const struct walk *walk, int64_t pass, const struct permutation *own,
                      struct seam *seam)
{
    uint64_t before[SEAM_ITEMS];
    struct permutation previous;
    seam->end = 0;
    seam->count = 0;
    int64_t a = (int64_t)((unsigned __int128)(uint64_t)pass * (uint64_t)walk->items %
                          (uint64_t)walk->apart);
    if (!walk->mends_seams || a == 0)
        return;
    int64_t b = walk->apart - a;
    seam->end = walk->apart;
    init_pass(walk, pass - 1, &previous);
    for (int64_t i = 0; i < a; i++)
        before[i] = permutation_at(&previous, (uint64_t)(walk->items - a + i));
    for (int64_t i = 0; i < b; i++) {
        if (holds(before, a, permutation_at(own, (uint64_t)i)))
            seam->from[seam->count++] = i;
    }
    uint32_t found = 0;
    for (int64_t i = b; found < seam->count; i++) {
        if (!holds(before, a, permutation_at(own, (uint64_t)i)))
            seam->to[found++] = i;
    }
}

static int64_t exchange(const struct seam *seam, int64_t place)
{
    for (uint32_t i = 0; place < seam->end && i < seam->count; i++) {
        if (seam->from[i] == place)
            return seam->to[i];
        if (seam->to[i] == place)
            return seam->from[i];
    }
    return place;
}

/* The draw of a pass that takes `item`. */
static int64_t find_draw(const struct walk *walk, int64_t pass, uint64_t item)
{
    struct permutation own;
    struct seam seam;
    init_pass(walk, pass, &own);
    int64_t place = (int64_t)permutation_find(&own, item);
    if (place < walk->apart) {
        find_seam(walk, pass, &own, &seam);
        place = exchange(&seam, place);
    }
    return pass * walk->items + place;
}

/* ---- turns of labels ---------------------------------------------------- */

/* A round, for looking up the labels of successive turns. */
struct round {
    int64_t number; /* -1: none yet */
    struct walk walk;
    struct permutation labels;
    struct seam seam;
};

static uint32_t label_of_turn(struct round *round, int64_t turn)
{
    int64_t number = turn / round->walk.items;
    if (number != round->number) {
        round->number = number;
        init_pass(&round->walk, number, &round->labels);
        find_seam(&round->walk, number, &round->labels, &round->seam);
    }
    int64_t place = exchange(&round->seam, turn % round->walk.items);
    return (uint32_t)permutation_at(&round->labels, (uint64_t)place);
}

static int64_t turn_of_label(const struct order *order, int64_t round, uint32_t label)
{
    struct walk walk = walk_of_labels(order);
    return find_draw(&walk, round, label);
}

/* Draws of a label before global position P: k for each earlier round, and those of its turn in P's
 * round. */
static int64_t label_draws_before(const struct order *order, uint32_t label, int64_t position)
{
    int64_t units = turns_of(order)->units_a_label;
    int64_t round = position / units / turns_of(order)->labels;
    int64_t own = position - turn_of_label(order, round, label) * units;
    if (own < 0)
        own = 0;
    return round * units + (own < units ? own : units);
}

/* ---- positions to rows -------------------------------------------------- */

/* The draws of a block: one run of consecutive ones for each turn, or two if a pass ends in it. */
struct draws {
    struct permutation_run runs[ORDER_BLOCK]; /* at least one draw each */
    struct walk walks[ORDER_BLOCK];           /* of each run, */
    int64_t passes[ORDER_BLOCK];              /* and its pass */
    uint32_t labels[ORDER_BLOCK];
    uint64_t ranks[ORDER_BLOCK];
    size_t count;
};

static void add_draws(struct draws *draws, uint32_t label, const struct walk *walk, int64_t draw,
                      int64_t count)
{
    while (count > 0) {
        int64_t pass = draw / walk->items;
        int64_t within = draw % walk->items;
        int64_t step = walk->items - within < count ? walk->items - within : count;
        draws->labels[draws->count] = label;
        draws->walks[draws->count] = *walk;
        draws->passes[draws->count] = pass;
        draws->runs[draws->count] = (struct permutation_run){
            .units = (uint64_t)walk->items,
            .key = pass_key(walk, pass),
            .first = (uint64_t)within,
            .count = (size_t)step,
        };
        draws->count++;
        draw += step;
        count -= step;
    }
}

static void list_draws(const struct order *order, int64_t position, int64_t left,
                       struct draws *draws)
{
    int64_t units = turns_of(order)->units_a_label;
    struct round round = {.number = -1, .walk = walk_of_labels(order)};
    draws->count = 0;
    while (left > 0) {
        int64_t turn = position / units;
        int64_t unit = position % units;
        int64_t step = units - unit < left ? units - unit : left;
        uint32_t label = label_of_turn(&round, turn);
        struct walk walk = walk_of_units(order, label);
        add_draws(draws, label, &walk, turn / round.walk.items * units + unit, step);
        position += step;
        left -= step;
    }
}

/* At the head of a pass some places are exchanged. */
static void mend(const struct draws *draws, size_t run, uint64_t *ranks)
{
    struct permutation own;
    struct seam seam;
    int64_t first = (int64_t)draws->runs[run].first;
    init_pass(&draws->walks[run], draws->passes[run], &own);
    find_seam(&draws->walks[run], draws->passes[run], &own, &seam);
    for (int64_t i = 0; i < (int64_t)draws->runs[run].count && first + i < seam.end; i++) {
        if (exchange(&seam, first + i) != first + i)
            ranks[i] = permutation_at(&own, (uint64_t)exchange(&seam, first + i));
    }
}

static size_t pxk_units(const struct order *order, const struct epoch *epoch, int64_t first,
                        size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    struct draws draws;
    size_t done = 0;
    list_draws(order, epoch->number * order->epoch_positions + first, (int64_t)count, &draws);
    permutation_runs(draws.runs, draws.count, draws.ranks);
    for (size_t run = 0; run < draws.count; run++) {
        size_t step = draws.runs[run].count;
        if (draws.walks[run].mends_seams && (int64_t)draws.runs[run].first < draws.walks[run].apart)
            mend(&draws, run, draws.ranks + done);
        partition_gather(frame_strata(order->frame), draws.labels[run], draws.ranks + done, step,
                         ret_rows + done);
        for (size_t i = 0; ret_labels && i < step; i++)
            ret_labels[done + i] = draws.labels[run];
        done += step;
    }
    return count;
}

/* ---- and back ----------------------------------------------------------- */

static enum error pxk_positions(const struct order *order, const struct epoch *epoch, int64_t row,
                                int64_t end, struct position_list *list)
{
    uint32_t label = frame_label(order->frame, row);
    uint64_t rank = (uint64_t)frame_stratum_rank(order->frame, row);
    struct walk walk = walk_of_units(order, label);
    int64_t start = epoch->number * order->epoch_positions;
    int64_t first = label_draws_before(order, label, start);
    int64_t last = label_draws_before(order, label, start + end); /* one after it */
    enum error error = OK;
    for (int64_t pass = first / walk.items; pass * walk.items < last && !error; pass++) {
        int64_t draw = find_draw(&walk, pass, rank);
        if (pass % POSITION_LIST_LOOK_PASSES == POSITION_LIST_LOOK_PASSES - 1)
            error = position_list_check(list);
        if (error || draw < first || draw >= last)
            continue;
        int64_t turn = turn_of_label(order, draw / walk.apart, label);
        error = position_list_add(list, turn * walk.apart + draw % walk.apart - start);
    }
    return error;
}

static int64_t pxk_label_count(const struct order *order, const struct epoch *epoch, uint32_t label,
                               int64_t t)
{
    int64_t start = epoch->number * order->epoch_positions;
    return label_draws_before(order, label, start + t) - label_draws_before(order, label, start);
}

static double pxk_probability(const struct order *order, int64_t row)
{
    int64_t units = frame_label_units(order->frame, frame_label(order->frame, row));
    return (double)order->epoch_positions / (double)turns_of(order)->labels / (double)units;
}

static double pxk_label_share(const struct order *order, uint32_t label)
{
    (void)label;
    return 1.0 / (double)turns_of(order)->labels;
}

/* Within a round a label is up to one turn ahead or behind; if epochs begin within a round, at both
 * ends. */
static double pxk_balance_error(const struct order *order)
{
    const struct turns *turns = turns_of(order);
    int64_t epoch_turns = order->epoch_positions / turns->units_a_label;
    double ends = epoch_turns % turns->labels == 0 ? 1 : 2;
    return ends * (double)turns->units_a_label * (1 - 1 / (double)turns->labels);
}

const struct design_ops design_pxk = {
    .name = "pxk",
    .init = pxk_init,
    .release = pxk_release,
    .units = pxk_units,
    .positions = pxk_positions,
    .label_count = pxk_label_count,
    .probability = pxk_probability,
    .label_share = pxk_label_share,
    .balance_error = pxk_balance_error,
};
