/* SPDX-License-Identifier: MIT */
#include "sampler/stream/tally.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"

#define BLOCK 4096
#define CLOSED_COUNTS_QUICK 4096      /* closed-form look-ups, about 0.1 us each */
#define CLOSED_COUNTS_LIMIT (1 << 20) /* beyond that counting is not slower */
#define CLOSED_COUNT_POSITIONS 8      /* counted in the time of one look-up */

struct tally {
    const struct frame *frame;
    const struct order *order;
    bool closed, closed_whole; /* of every prefix; of an epoch */
    pthread_mutex_t mutex;     /* guards all below */
    int64_t epoch;
    struct intervals counted; /* positions of `epoch` included in `counts` */
    struct intervals next;    /* room for making a new `counted` */
    int64_t *counts;          /* [L] */
};

static bool is_closed(const struct order *order, int64_t t)
{
    int64_t count;
    return !order_label_count(order, 0, 0, t, &count);
}

enum error tally_new(const struct frame *frame, const struct order *order, struct tally **ret_tally)
{
    struct tally *tally = array_new(1, sizeof(*tally), "the tally of labels");
    if (!tally)
        return ERROR_MEMORY;
    tally->frame = frame;
    tally->order = order;
    tally->closed = is_closed(order, 1);
    tally->closed_whole = is_closed(order, order_epoch_positions(order));
    tally->counts = array_new(frame_labels(frame), sizeof(*tally->counts), "the tally of labels");
    if (!tally->counts) {
        free(tally);
        return ERROR_MEMORY;
    }
    pthread_mutex_init(&tally->mutex, NULL);
    *ret_tally = tally;
    return OK;
}

void tally_free(struct tally *tally)
{
    if (!tally)
        return;
    pthread_mutex_destroy(&tally->mutex);
    intervals_release(&tally->counted);
    intervals_release(&tally->next);
    free(tally->counts);
    free(tally);
}

/* ---- in closed form ----------------------------------------------------- */

/* Look-ups needed: a span from the epoch's start takes one per label, others two. */
static int64_t look_ups(const struct tally *tally, const struct tally_set *set)
{
    return (int64_t)frame_labels(tally->frame) * 2 * (int64_t)set->count;
}

bool tally_is_quick(const struct tally *tally, const struct tally_set *set)
{
    return set->count == 0 || (tally->closed && look_ups(tally, set) <= CLOSED_COUNTS_QUICK);
}

static enum error closed_count(const struct tally *tally, const struct tally_set *set,
                               uint32_t label, int64_t *ret_count)
{
    int64_t start = set->epoch * order_epoch_positions(tally->order);
    int64_t sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        int64_t before = 0;
        int64_t after;
        enum error error =
            order_label_count(tally->order, label, set->epoch, set->spans[i].end - start, &after);
        if (!error && set->spans[i].begin > start)
            error = order_label_count(tally->order, label, set->epoch, set->spans[i].begin - start,
                                      &before);
        if (error)
            return error;
        sum += after - before;
    }
    *ret_count = sum;
    return OK;
}

static enum error closed_counts(const struct tally *tally, const struct tally_set *set,
                                int64_t *counts)
{
    enum error error = OK;
    uint32_t labels = frame_labels(tally->frame);
    for (uint32_t label = 0; !error && label < labels; label++)
        error = closed_count(tally, set, label, &counts[label]);
    return error;
}

/* ---- what differs ------------------------------------------------------- */

/* Walks through the counted and the wanted set in parallel. */
struct sweep {
    const struct intervals *counted;
    const struct tally_set *set;
    size_t i, j;
    int64_t at;
};

static bool is_inside(const struct interval *span, int64_t at)
{
    return span && span->begin <= at;
}

static int64_t edge(const struct interval *span, int64_t at)
{
    if (!span)
        return INT64_MAX;
    return span->begin <= at ? span->end : span->begin;
}

/* The next span that is only in one of them; *ret_add: to be counted, else subtracted. */
static bool sweep_next(struct sweep *sweep, struct interval *ret_span, bool *ret_add)
{
    while (sweep->i < sweep->counted->count || sweep->j < sweep->set->count) {
        const struct interval *has =
            sweep->i < sweep->counted->count ? intervals_at(sweep->counted, sweep->i) : NULL;
        const struct interval *wants =
            sweep->j < sweep->set->count ? &sweep->set->spans[sweep->j] : NULL;
        int64_t at = sweep->at;
        int64_t end = edge(has, at) < edge(wants, at) ? edge(has, at) : edge(wants, at);
        bool differs = is_inside(has, at) != is_inside(wants, at);
        *ret_add = is_inside(wants, at);
        *ret_span = (struct interval){at, end};
        sweep->at = end;
        sweep->i += has && has->end == end;
        sweep->j += wants && wants->end == end;
        if (differs)
            return true;
    }
    return false;
}

static int64_t difference(const struct intervals *counted, const struct tally_set *set)
{
    struct sweep sweep = {.counted = counted, .set = set};
    struct interval span;
    bool add;
    int64_t sum = 0;
    while (sweep_next(&sweep, &span, &add))
        sum += span.end - span.begin;
    return sum;
}

static int64_t size_of(const struct tally_set *set)
{
    int64_t sum = 0;
    for (size_t i = 0; i < set->count; i++)
        sum += set->spans[i].end - set->spans[i].begin;
    return sum;
}

/* ---- where to start ----------------------------------------------------- */

/* Sets the counts of the epoch's first t positions, which have a closed form (t = 0: none). */
static enum error restart(struct tally *tally, int64_t epoch, int64_t t)
{
    int64_t start = epoch * order_epoch_positions(tally->order);
    struct interval all = {start, start + t};
    enum error error = intervals_reserve(&tally->counted, 1);
    if (error)
        return error;
    tally->epoch = epoch;
    intervals_clear(&tally->counted);
    memset(tally->counts, 0, frame_labels(tally->frame) * sizeof(*tally->counts));
    if (t == 0)
        return OK;
    error = closed_counts(tally, &(struct tally_set){epoch, &all, 1}, tally->counts);
    if (!error)
        intervals_add(&tally->counted, all.begin, all.end);
    return error;
}

/* Starts from the current counts, from nothing, or from the shortest closed form that covers the
 * set: whichever is nearest. */
static enum error start(struct tally *tally, const struct tally_set *set)
{
    int64_t positions = order_epoch_positions(tally->order);
    int64_t begin = set->epoch * positions;
    int64_t size = size_of(set);
    int64_t t = tally->closed_whole ? positions : 0;
    if (tally->closed)
        t = set->count > 0 ? set->spans[set->count - 1].end - begin : 0;
    int64_t price = (int64_t)frame_labels(tally->frame) * CLOSED_COUNT_POSITIONS;
    int64_t from_closed = t > 0 ? t - size + price : INT64_MAX;
    int64_t from_here = tally->epoch == set->epoch ? difference(&tally->counted, set) : INT64_MAX;
    if (from_here <= size && from_here <= from_closed)
        return OK;
    return restart(tally, set->epoch, from_closed < size ? t : 0);
}

/* ---- counting ----------------------------------------------------------- */

static void count_block(struct tally *tally, int64_t first, int64_t size, int64_t step)
{
    int64_t ids[BLOCK];
    uint32_t labels[BLOCK];
    size_t found = order_units(tally->order, first, size, ids, labels, NULL);
    for (size_t i = 0; i < found; i++)
        tally->counts[labels[i]] += step;
}

/* Runs until the deadline, for at least one block; returns how far it came. */
static int64_t count_span(struct tally *tally, const struct interval *span, bool add,
                          int64_t deadline_ns)
{
    int64_t at = span->begin;
    do {
        int64_t left = span->end - at;
        int64_t size = left < BLOCK ? left : BLOCK;
        count_block(tally, at, size, add ? 1 : -1);
        at += size;
    } while (at < span->end && clock_now_ns() < deadline_ns);
    return at;
}

/* The counted set is then the wanted one below `at`, and from there on the previous one. */
static void settle(struct tally *tally, const struct tally_set *set, int64_t at)
{
    struct intervals next = tally->next;
    for (size_t i = 0; i < set->count && set->spans[i].begin < at; i++)
        intervals_add(&next, set->spans[i].begin, set->spans[i].end < at ? set->spans[i].end : at);
    for (size_t i = intervals_find(&tally->counted, at); i < tally->counted.count; i++) {
        const struct interval *span = intervals_at(&tally->counted, i);
        intervals_add(&next, span->begin > at ? span->begin : at, span->end);
    }
    tally->next = tally->counted;
    tally->counted = next;
    intervals_clear(&tally->next);
}

static enum error count_slice(struct tally *tally, const struct tally_set *set)
{
    int64_t deadline_ns = clock_now_ns() + TALLY_SLICE_NS;
    enum error error = start(tally, set);
    if (!error)
        error = intervals_reserve(&tally->next, tally->counted.count + set->count + 1);
    if (error)
        return error;
    struct sweep sweep = {.counted = &tally->counted, .set = set};
    struct interval span;
    bool add;
    int64_t at = INT64_MAX;
    while (at == INT64_MAX && sweep_next(&sweep, &span, &add)) {
        int64_t reached = count_span(tally, &span, add, deadline_ns);
        if (clock_now_ns() >= deadline_ns)
            at = reached;
    }
    settle(tally, set, at);
    return OK;
}

/* ---- asking ------------------------------------------------------------- */

static enum error counted_slice(struct tally *tally, const struct tally_set *set,
                                int64_t *ret_counts, int64_t *ret_left)
{
    pthread_mutex_lock(&tally->mutex);
    enum error error = count_slice(tally, set);
    if (!error)
        *ret_left = difference(&tally->counted, set);
    if (!error && *ret_left == 0 && ret_counts)
        memcpy(ret_counts, tally->counts, frame_labels(tally->frame) * sizeof(*ret_counts));
    pthread_mutex_unlock(&tally->mutex);
    return error;
}

enum error tally_counts(struct tally *tally, const struct tally_set *set, int64_t limit_ns,
                        int64_t *ret_counts, int64_t *ret_left)
{
    int64_t deadline_ns = clock_now_ns() + limit_ns;
    *ret_left = 0;
    if (set->count == 0 || (tally->closed && look_ups(tally, set) <= CLOSED_COUNTS_LIMIT))
        return ret_counts ? closed_counts(tally, set, ret_counts) : OK;
    enum error error;
    do {
        error = counted_slice(tally, set, ret_counts, ret_left);
    } while (!error && *ret_left > 0 && clock_now_ns() < deadline_ns);
    return error;
}
