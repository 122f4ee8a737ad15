#include "sampler/order/batching.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/text.h"

static const char *const tail_names[] = {"keep", "drop", "span"};

const char *tail_name(enum tail tail)
{
    return tail_names[tail];
}

enum error tail_of_name(const char *name, enum tail *ret_tail)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, tail_names[i]) == 0) {
            *ret_tail = (enum tail)i;
            return OK;
        }
    }
    return error_set(ERROR_USAGE, "tail \"%s\" is not one of keep, drop, span", name);
}

enum error cut_check(const struct cut *cut)
{
    int64_t end;
    if (cut->epoch_positions < 1 || cut->epoch_positions >= CUT_POSITION_LIMIT)
        return error_set(ERROR_INPUT, "an epoch of %" PRId64 " positions cannot be cut",
                         cut->epoch_positions);
    int64_t most = (CUT_POSITION_LIMIT - 1) / cut->epoch_positions;
    if (cut->epochs < 0 || __builtin_mul_overflow(cut->epochs, cut->epoch_positions, &end) ||
        end >= CUT_POSITION_LIMIT)
        return error_set(ERROR_USAGE,
                         "epochs %" PRId64 " is out of range: 0 (without end) to %" PRId64
                         " with %" PRId64 " %s an epoch",
                         cut->epochs, most, cut->epoch_positions,
                         text_plural(cut->epoch_positions, "position", "positions"));
    return OK;
}

int64_t cut_end(const struct cut *cut)
{
    return cut->epochs > 0 ? cut->epochs * cut->epoch_positions : CUT_POSITION_LIMIT;
}

static bool passes_over(const struct cut *cut)
{
    return cut->order && order_passes_over(cut->order);
}

enum error cut_check_size(const struct cut *cut, int64_t size)
{
    int64_t only = cut->order ? order_batch_size(cut->order) : 0;
    if (only > 0 && size != only)
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is not this design's batch size; %" PRId64
                         " (p * k) is right",
                         size, only);
    if (cut->tail == TAIL_DROP && size > cut->epoch_positions)
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is more than the %" PRId64
                         " %s of an epoch: with tail=drop no batch would ever be complete",
                         size, cut->epoch_positions,
                         text_plural(cut->epoch_positions, "position", "positions"));
    return OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void set_end(const struct cut *cut, struct span *ret_span)
{
    *ret_span = (struct span){.first = cut_end(cut)};
}

/* ---- every position has a unit ------------------------------------------ */
static void next_plain(const struct cut *cut, int64_t position, int64_t size, struct span *ret_span)
{
    int64_t end = cut_end(cut);
    int64_t first = position;
    if (cut->tail != TAIL_SPAN && position < end) {
        int64_t left = cut->epoch_positions - position % cut->epoch_positions;
        if (cut->tail == TAIL_DROP && left < size)
            first = position + left;
        else
            size = smaller(size, left);
    }
    if (first >= end) {
        set_end(cut, ret_span);
        return;
    }
    size = smaller(size, end - first);
    *ret_span = (struct span){.first = first, .positions = size, .units = size};
}

/* Batch K where every epoch is cut from its start into `batches` of `size`, the last one of
 * keep being short. */
static void at_epoch(const struct cut *cut, int64_t index, int64_t size, int64_t batches,
                     struct span *ret_span)
{
    int64_t end = cut_end(cut);
    int64_t epoch = index / batches;
    int64_t within = index % batches * size;
    int64_t first;
    if (__builtin_mul_overflow(epoch, cut->epoch_positions, &first) || first >= end ||
        first + within >= end) {
        set_end(cut, ret_span);
        return;
    }
    int64_t left = smaller(cut->epoch_positions - within, end - first - within);
    size = smaller(size, left);
    *ret_span = (struct span){.first = first + within, .positions = size, .units = size};
}

static void at_plain(const struct cut *cut, int64_t index, int64_t size, struct span *ret_span)
{
    int64_t whole = cut->epoch_positions / size;
    int64_t first;
    if (cut->tail == TAIL_KEEP) {
        at_epoch(cut, index, size, whole + (cut->epoch_positions % size != 0), ret_span);
    } else if (cut->tail == TAIL_DROP && whole > 0) {
        at_epoch(cut, index, size, whole, ret_span);
    } else if (cut->tail == TAIL_DROP || __builtin_mul_overflow(index, size, &first) ||
               first >= cut_end(cut)) {
        set_end(cut, ret_span);
    } else {
        size = smaller(size, cut_end(cut) - first);
        *ret_span = (struct span){.first = first, .positions = size, .units = size};
    }
}

/* ---- positions are passed over ------------------------------------------ */
static void next_passing(const struct cut *cut, int64_t position, int64_t size,
                         struct span *ret_span)
{
    int64_t end = cut_end(cut);
    struct span span = {.first = position};
    while (span.units < size && span.first + span.positions < end) {
        int64_t positions;
        int64_t units;
        order_reach(cut->order, span.first + span.positions, size - span.units, &positions, &units);
        span.positions += positions;
        span.units += units;
        if (cut->tail == TAIL_DROP && units < size)
            span = (struct span){.first = span.first + span.positions};
        else if (cut->tail == TAIL_KEEP && units > 0)
            break;
    }
    if (span.units == 0)
        set_end(cut, ret_span);
    else
        *ret_span = span;
}

/* Where a walk stands that has drawn all before unit j of an epoch. */
static int64_t stand_before(const struct cut *cut, int64_t epoch, int64_t j)
{
    return j == 0 ? epoch * cut->epoch_positions
                  : order_unit_position(cut->order, epoch, j - 1) + 1;
}

/* Which epoch holds what number K counts (batches of keep and drop, B units each of span), and how
 * many of it come before in that epoch. *ret_start: the epoch, or the first of the empty ones
 * right before it. Beyond the end *ret_epoch is -1. */
static enum error find_epoch(const struct cut *cut, int64_t size, int64_t *number,
                             int64_t *ret_epoch, int64_t *ret_start)
{
    int64_t end = cut_end(cut);
    int64_t start = 0;
    for (int64_t epoch = 0; (epoch + 1) <= end / cut->epoch_positions; epoch++) {
        int64_t units;
        enum error error = order_epoch_units(cut->order, epoch, &units);
        if (error)
            return error;
        int64_t here = cut->tail == TAIL_SPAN   ? units
                       : cut->tail == TAIL_DROP ? units / size
                                                : (units + size - 1) / size;
        if (*number < here) {
            *ret_epoch = epoch;
            *ret_start = cut->tail == TAIL_DROP ? epoch : start;
            return OK;
        }
        *number -= here;
        if (units > 0)
            start = epoch + 1;
    }
    *ret_epoch = -1;
    return OK;
}

static enum error at_passing(const struct cut *cut, int64_t index, int64_t size,
                             struct span *ret_span)
{
    int64_t number = index;
    int64_t epoch = -1;
    int64_t start = 0;
    if (cut->tail == TAIL_SPAN && __builtin_mul_overflow(index, size, &number))
        number = INT64_MAX;
    enum error error = find_epoch(cut, size, &number, &epoch, &start);
    if (error)
        return error;
    if (epoch < 0) {
        set_end(cut, ret_span);
        return OK;
    }
    int64_t unit = cut->tail == TAIL_SPAN ? number : number * size;
    int64_t stand = unit == 0 ? start * cut->epoch_positions : stand_before(cut, epoch, unit);
    next_passing(cut, stand, size, ret_span);
    return OK;
}

void cut_next(const struct cut *cut, int64_t position, int64_t size, struct span *ret_span)
{
    if (passes_over(cut))
        next_passing(cut, position, size, ret_span);
    else
        next_plain(cut, position, size, ret_span);
}

enum error cut_at(const struct cut *cut, int64_t index, int64_t size, struct span *ret_span)
{
    if (passes_over(cut))
        return at_passing(cut, index, size, ret_span);
    at_plain(cut, index, size, ret_span);
    return OK;
}
