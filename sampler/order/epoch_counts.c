/* SPDX-License-Identifier: MIT */
#include "sampler/order/epoch_counts.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

#define CALL_POSITIONS (INT64_C(1) << 28) /* some tenths of a second */
#define STEP_POSITIONS (INT64_C(1) << 22)

struct epoch_counts {
    pthread_mutex_t mutex; /* guards units and count */
    int64_t *units;        /* [count] */
    size_t count, capacity;
    pthread_mutex_t counting; /* held while counting; guards the two below */
    int64_t within;           /* of epoch number `count`, positions [0, within) ... */
    int64_t found;            /* ... hold so many units */
};

enum error epoch_counts_new(struct epoch_counts **ret_counts)
{
    struct epoch_counts *counts = array_new(1, sizeof(*counts), "the epochs' units");
    if (!counts)
        return ERROR_MEMORY;
    pthread_mutex_init(&counts->mutex, NULL);
    pthread_mutex_init(&counts->counting, NULL);
    *ret_counts = counts;
    return OK;
}

void epoch_counts_free(struct epoch_counts *counts)
{
    if (!counts)
        return;
    pthread_mutex_destroy(&counts->mutex);
    pthread_mutex_destroy(&counts->counting);
    free(counts->units);
    free(counts);
}

static bool is_known(struct epoch_counts *counts, int64_t epoch, int64_t *ret_units)
{
    pthread_mutex_lock(&counts->mutex);
    bool known = (uint64_t)epoch < counts->count;
    if (known)
        *ret_units = counts->units[epoch];
    pthread_mutex_unlock(&counts->mutex);
    return known;
}

int64_t epoch_counts_known(struct epoch_counts *counts)
{
    pthread_mutex_lock(&counts->mutex);
    int64_t known = (int64_t)counts->count;
    pthread_mutex_unlock(&counts->mutex);
    return known;
}

/* ---- the one that counts ------------------------------------------------ */

static enum error note(struct epoch_counts *counts, int64_t units)
{
    pthread_mutex_lock(&counts->mutex);
    enum error error = array_grow((void **)&counts->units, &counts->capacity, counts->count + 1,
                                  sizeof(*counts->units), "the epochs' units");
    if (!error)
        counts->units[counts->count++] = units;
    pthread_mutex_unlock(&counts->mutex);
    return error;
}

/* Counts up to and including `epoch`, at most CALL_POSITIONS. Reads `count` without its mutex: only
 * the counting thread writes it. */
static enum error count(struct epoch_counts *counts, const struct order *order, int64_t epoch)
{
    int64_t positions = order->epoch_positions;
    for (int64_t left = CALL_POSITIONS; left > 0 && (int64_t)counts->count <= epoch;) {
        struct epoch keys = epoch_of(order, (int64_t)counts->count);
        int64_t step = positions - counts->within;
        if (step > STEP_POSITIONS)
            step = STEP_POSITIONS;
        counts->found += order->ops->count(order, &keys, counts->within, step);
        counts->within += step;
        left -= step;
        if (counts->within < positions)
            continue;
        enum error error = note(counts, counts->found);
        if (error) {
            counts->found = counts->within = 0;
            return error;
        }
        counts->found = counts->within = 0;
    }
    if ((int64_t)counts->count > epoch)
        return OK;
    return error_set(ERROR_UNAVAILABLE,
                     "the units of this design's epochs can only be counted: %zu of %" PRId64
                     " epochs are, ask again",
                     counts->count, epoch + 1);
}

enum error epoch_counts_get(struct epoch_counts *counts, const struct order *order, int64_t epoch,
                            int64_t *ret_units)
{
    if (is_known(counts, epoch, ret_units))
        return OK;
    if (epoch >= ORDER_COUNTED_EPOCHS)
        return error_set(ERROR_USAGE,
                         "epoch %" PRId64 " is too far ahead: the units of this design's epochs "
                         "can only be counted, and %" PRId64 " epochs are at most",
                         epoch, ORDER_COUNTED_EPOCHS);
    pthread_mutex_lock(&counts->counting);
    enum error error = count(counts, order, epoch);
    pthread_mutex_unlock(&counts->counting);
    if (!error)
        (void)is_known(counts, epoch, ret_units);
    return error;
}
