/* SPDX-License-Identifier: MIT */
#include "sampler/order/batching.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/text.h"

#define CALL_POSITIONS (INT64_C(1) << 26) /* counted by one batching_at(), or one epoch */

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

enum error batching_check(const struct batching *batching)
{
    int64_t end;
    if (batching->epoch_positions < 1 || batching->epoch_positions >= POSITION_LIMIT)
        return error_set(ERROR_INPUT, "an epoch of %" PRId64 " positions cannot be cut",
                         batching->epoch_positions);
    int64_t most = (POSITION_LIMIT - 1) / batching->epoch_positions;
    if (batching->epochs < 0 ||
        __builtin_mul_overflow(batching->epochs, batching->epoch_positions, &end) ||
        end >= POSITION_LIMIT)
        return error_set(ERROR_USAGE,
                         "epochs %" PRId64 " is out of range: 0 (without end) to %" PRId64
                         " with %" PRId64 " %s an epoch",
                         batching->epochs, most, batching->epoch_positions,
                         text_plural(batching->epoch_positions, "position", "positions"));
    return OK;
}

int64_t batching_end(const struct batching *batching)
{
    return batching->epochs > 0 ? batching->epochs * batching->epoch_positions : POSITION_LIMIT;
}

static bool skips_positions(const struct batching *batching)
{
    return batching->order && order_skips_positions(batching->order);
}

enum error batching_check_size(const struct batching *batching, int64_t size)
{
    int64_t only = batching->order ? order_batch_size(batching->order) : 0;
    if (only > 0 && size != only)
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is not this design's batch size, %" PRId64 " (p * k)",
                         size, only);
    if (batching->tail == TAIL_DROP && size > batching->epoch_positions)
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is more than the %" PRId64
                         " %s of an epoch: with tail=drop no batch would ever be complete",
                         size, batching->epoch_positions,
                         text_plural(batching->epoch_positions, "position", "positions"));
    if (batching->tail == TAIL_DROP && batching->order &&
        !order_epoch_may_have(batching->order, size))
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is too much for a design of which an epoch has %g units "
                         "on average: with tail=drop hardly a batch would ever be complete",
                         size, order_epoch_units_mean(batching->order));
    return OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void set_end(const struct batching *batching, struct span *ret_span)
{
    *ret_span = (struct span){.first = batching_end(batching)};
}

/* ---- every position has a unit ------------------------------------------ */

static void next_plain(const struct batching *batching, int64_t position, int64_t size,
                       struct span *ret_span)
{
    int64_t end = batching_end(batching);
    int64_t first = position;
    if (batching->tail != TAIL_SPAN && position < end) {
        int64_t left = batching->epoch_positions - position % batching->epoch_positions;
        if (batching->tail == TAIL_DROP && left < size)
            first = position + left;
        else
            size = smaller(size, left);
    }
    if (first >= end) {
        set_end(batching, ret_span);
        return;
    }
    size = smaller(size, end - first);
    *ret_span = (struct span){.first = first, .positions = size, .units = size};
}

/* Batch K if every epoch is divided from its start into `batches` of `size`, the last one of keep
 * being short. */
static void at_epoch(const struct batching *batching, int64_t index, int64_t size, int64_t batches,
                     struct span *ret_span)
{
    int64_t end = batching_end(batching);
    int64_t epoch = index / batches;
    int64_t within = index % batches * size;
    int64_t first;
    if (__builtin_mul_overflow(epoch, batching->epoch_positions, &first) || first >= end ||
        first + within >= end) {
        set_end(batching, ret_span);
        return;
    }
    int64_t left = smaller(batching->epoch_positions - within, end - first - within);
    size = smaller(size, left);
    *ret_span = (struct span){.first = first + within, .positions = size, .units = size};
}

static void at_plain(const struct batching *batching, int64_t index, int64_t size,
                     struct span *ret_span)
{
    int64_t whole = batching->epoch_positions / size;
    int64_t first;
    if (batching->tail == TAIL_KEEP) {
        at_epoch(batching, index, size, whole + (batching->epoch_positions % size != 0), ret_span);
    } else if (batching->tail == TAIL_DROP && whole > 0) {
        at_epoch(batching, index, size, whole, ret_span);
    } else if (batching->tail == TAIL_DROP || __builtin_mul_overflow(index, size, &first) ||
               first >= batching_end(batching)) {
        set_end(batching, ret_span);
    } else {
        size = smaller(size, batching_end(batching) - first);
        *ret_span = (struct span){.first = first, .positions = size, .units = size};
    }
}

/* ---- orders that skip positions ----------------------------------------- */

static void next_skipping(const struct batching *batching, int64_t position, int64_t size,
                          struct span *ret_span)
{
    int64_t end = batching_end(batching);
    struct span span = {.first = position};
    while (span.units < size && span.first + span.positions < end) {
        int64_t positions;
        int64_t units;
        order_reach(batching->order, span.first + span.positions, size - span.units, &positions,
                    &units);
        span.positions += positions;
        span.units += units;
        if (batching->tail == TAIL_DROP && units < size)
            span = (struct span){.first = span.first + span.positions};
        else if (batching->tail == TAIL_KEEP && units > 0)
            break;
    }
    if (span.units == 0)
        set_end(batching, ret_span);
    else
        *ret_span = span;
}

/* The position after the last unit before unit j of an epoch. */
static int64_t stand_before(const struct batching *batching, int64_t epoch, int64_t j)
{
    return j == 0 ? epoch * batching->epoch_positions
                  : order_unit_position(batching->order, epoch, j - 1) + 1;
}

/* A search for a batch by its number. Epochs that nobody has counted yet are counted: at most
 * CALL_POSITIONS in one call, however many epochs these are. */
struct finding {
    const struct batching *batching;
    int64_t size;
    int64_t counted; /* epochs, when the call began */
    int64_t number;  /* items to skip: batches for keep and drop, B units each for span */
    int64_t epoch;   /* that contains the item; -1: it is beyond the end */
    int64_t start;   /* this epoch, or the first of the empty ones right before it */
};

static int64_t epochs_of(const struct batching *batching)
{
    return batching_end(batching) / batching->epoch_positions;
}

static enum error count_epoch(const struct finding *finding, int64_t epoch, int64_t *ret_units)
{
    if (epoch - finding->counted > CALL_POSITIONS / finding->batching->epoch_positions)
        return error_set(ERROR_UNAVAILABLE,
                         "the units of this design's epochs can only be counted: %" PRId64
                         " epochs are, ask again",
                         epoch);
    return order_epoch_units(finding->batching->order, epoch, ret_units);
}

/* Leaves in `number` how many items precede it in its epoch. */
static enum error find_epoch(struct finding *finding)
{
    enum tail tail = finding->batching->tail;
    for (int64_t epoch = 0; epoch < epochs_of(finding->batching); epoch++) {
        int64_t units;
        enum error error = count_epoch(finding, epoch, &units);
        if (error)
            return error;
        int64_t here = tail == TAIL_SPAN   ? units
                       : tail == TAIL_DROP ? units / finding->size
                                           : (units + finding->size - 1) / finding->size;
        if (finding->number < here) {
            finding->epoch = epoch;
            finding->start = tail == TAIL_DROP ? epoch : finding->start;
            return OK;
        }
        finding->number -= here;
        if (units > 0)
            finding->start = epoch + 1;
    }
    finding->epoch = -1;
    return OK;
}

/* The batch that begins with unit `unit` of the epoch found. Only the positions of its last epoch
 * are examined. */
static enum error find_end(const struct finding *finding, int64_t unit, struct span *ret_span)
{
    const struct batching *batching = finding->batching;
    int64_t first = unit == 0 ? finding->start * batching->epoch_positions
                              : stand_before(batching, finding->epoch, unit);
    struct span span = {.first = first};
    for (int64_t epoch = finding->epoch; epoch < epochs_of(batching); epoch++) {
        int64_t here, positions;
        int64_t begin = epoch * batching->epoch_positions;
        enum error error = count_epoch(finding, epoch, &here);
        if (error)
            return error;
        here -= epoch == finding->epoch ? unit : 0;
        if (batching->tail != TAIL_SPAN || span.units + here >= finding->size) {
            begin = first > begin ? first : begin;
            order_reach(batching->order, begin, finding->size - span.units, &positions, &here);
            span.positions = begin + positions - first;
            span.units += here;
            break;
        }
        span.positions = begin + batching->epoch_positions - first;
        span.units += here;
    }
    *ret_span = span;
    return OK;
}

static enum error at_skipping(const struct batching *batching, int64_t index, int64_t size,
                              struct span *ret_span)
{
    struct finding finding = {.batching = batching,
                              .size = size,
                              .counted = order_counted_epochs(batching->order),
                              .number = index};
    bool spans = batching->tail == TAIL_SPAN;
    if (spans && __builtin_mul_overflow(index, size, &finding.number))
        finding.number = INT64_MAX;
    enum error error = find_epoch(&finding);
    if (error)
        return error;
    if (finding.epoch >= 0)
        return find_end(&finding, spans ? finding.number : finding.number * size, ret_span);
    set_end(batching, ret_span);
    return OK;
}

void batching_next(const struct batching *batching, int64_t position, int64_t size,
                   struct span *ret_span)
{
    if (skips_positions(batching))
        next_skipping(batching, position, size, ret_span);
    else
        next_plain(batching, position, size, ret_span);
}

enum error batching_at(const struct batching *batching, int64_t index, int64_t size,
                       struct span *ret_span)
{
    if (skips_positions(batching))
        return at_skipping(batching, index, size, ret_span);
    at_plain(batching, index, size, ret_span);
    return OK;
}
