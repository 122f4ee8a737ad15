#include "sampler/tally.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define BLOCK 4096
#define CALL_POSITIONS (4 << 20) /* some tenths of a second */

struct tally {
    const struct frame *frame;
    const struct order *order;
    pthread_mutex_t mutex; /* for all below */
    int64_t epoch;         /* that is being counted */
    int64_t counted;       /* its positions [0, counted) are in `counts` */
    int64_t *counts;       /* [L] */
};

enum error tally_new(const struct frame *frame, const struct order *order, struct tally **ret_tally)
{
    struct tally *tally = array_new(1, sizeof(*tally), "the tally of labels");
    if (!tally)
        return ERROR_MEMORY;
    tally->frame = frame;
    tally->order = order;
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
    free(tally->counts);
    free(tally);
}

static void count_block(struct tally *tally, size_t size)
{
    int64_t ids[BLOCK];
    uint32_t labels[BLOCK];
    int64_t first = tally->epoch * order_epoch_positions(tally->order) + tally->counted;
    size_t found = order_units(tally->order, first, (int64_t)size, ids, labels, NULL);
    for (size_t i = 0; i < found; i++)
        tally->counts[labels[i]]++;
    tally->counted += (int64_t)size;
}

static enum error count(struct tally *tally, int64_t epoch, int64_t t)
{
    if (epoch != tally->epoch || t < tally->counted) {
        memset(tally->counts, 0, frame_labels(tally->frame) * sizeof(*tally->counts));
        tally->epoch = epoch;
        tally->counted = 0;
    }
    for (int64_t left = CALL_POSITIONS; tally->counted < t && left > 0; left -= BLOCK) {
        int64_t size = t - tally->counted;
        count_block(tally, (size_t)(size < BLOCK ? size : BLOCK));
    }
    if (tally->counted == t)
        return OK;
    return error_set(ERROR_UNAVAILABLE,
                     "this design's labels can only be counted: %" PRId64 " of %" PRId64
                     " positions are, ask again",
                     tally->counted, t);
}

enum error tally_counts(struct tally *tally, int64_t epoch, int64_t t, int64_t *ret_counts)
{
    uint32_t labels = frame_labels(tally->frame);
    enum error error = OK;
    for (uint32_t label = 0; error == OK && label < labels; label++)
        error = order_label_count(tally->order, label, epoch, t, &ret_counts[label]);
    if (error != ERROR_UNAVAILABLE)
        return error;
    pthread_mutex_lock(&tally->mutex);
    error = count(tally, epoch, t);
    if (error == OK)
        memcpy(ret_counts, tally->counts, labels * sizeof(*ret_counts));
    pthread_mutex_unlock(&tally->mutex);
    return error;
}
