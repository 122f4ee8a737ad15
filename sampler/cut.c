#include "sampler/cut.h"

#include <inttypes.h>
#include <string.h>

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
                         " with %" PRId64 " positions an epoch",
                         cut->epochs, most, cut->epoch_positions);
    return OK;
}

int64_t cut_end(const struct cut *cut)
{
    return cut->epochs > 0 ? cut->epochs * cut->epoch_positions : CUT_POSITION_LIMIT;
}

enum error cut_check_size(const struct cut *cut, int64_t size)
{
    if (cut->tail == TAIL_DROP && size > cut->epoch_positions)
        return error_set(ERROR_USAGE,
                         "size=%" PRId64 " is more than the %" PRId64
                         " positions of an epoch: with tail=drop no batch would ever be complete",
                         size, cut->epoch_positions);
    return OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void cut_next(const struct cut *cut, int64_t position, int64_t size, struct span *ret_span)
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
    if (first >= end)
        *ret_span = (struct span){.first = end, .size = 0};
    else
        *ret_span = (struct span){.first = first, .size = smaller(size, end - first)};
}

/* Batch K where every epoch is cut from its start into `batches` of `size`, the last one of
 * keep being short. */
static void cut_at_epoch(const struct cut *cut, int64_t index, int64_t size, int64_t batches,
                         struct span *ret_span)
{
    int64_t end = cut_end(cut);
    int64_t epoch = index / batches;
    int64_t within = index % batches * size;
    int64_t first;
    if (__builtin_mul_overflow(epoch, cut->epoch_positions, &first) || first >= end ||
        first + within >= end) {
        *ret_span = (struct span){.first = end, .size = 0};
        return;
    }
    int64_t left = smaller(cut->epoch_positions - within, end - first - within);
    *ret_span = (struct span){.first = first + within, .size = smaller(size, left)};
}

void cut_at(const struct cut *cut, int64_t index, int64_t size, struct span *ret_span)
{
    int64_t whole = cut->epoch_positions / size;
    int64_t first;
    if (cut->tail == TAIL_KEEP) {
        cut_at_epoch(cut, index, size, whole + (cut->epoch_positions % size != 0), ret_span);
    } else if (cut->tail == TAIL_DROP && whole > 0) {
        cut_at_epoch(cut, index, size, whole, ret_span);
    } else if (cut->tail == TAIL_DROP || __builtin_mul_overflow(index, size, &first) ||
               first >= cut_end(cut)) {
        *ret_span = (struct span){.first = cut_end(cut), .size = 0};
    } else {
        *ret_span = (struct span){.first = first, .size = smaller(size, cut_end(cut) - first)};
    }
}
