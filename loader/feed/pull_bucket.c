/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/feed/pull_push.h"

enum error pull_bucket_init(struct pull_bucket *bucket, struct store *store,
                            const struct puller *puller, const struct pull_plan *plan)
{
    static const char what[] = "a window of batches";
    size_t rows = (size_t)plan->batch_rows, window = puller->options.bucket_window;
    if (!plan->plain)
        return error_set(ERROR_USAGE,
                         "stream %s: batches of the design %s are not cut into buckets by length; "
                         "designs like srs and proportional, whose batches are the next positions "
                         "of the order, are",
                         puller->stream.name, puller->stream.design);
    *bucket = (struct pull_bucket){.window = window,
                                   .ids = array_new(window * rows, sizeof(int64_t), what),
                                   .labels = array_new(window * rows, sizeof(uint32_t), what),
                                   .lengths = array_new(window * rows, sizeof(int64_t), what),
                                   .batch_ids = array_new(rows, sizeof(int64_t), what),
                                   .batch_labels = array_new(rows, sizeof(uint32_t), what)};
    enum error error = bucket->ids && bucket->labels && bucket->lengths && bucket->batch_ids &&
                               bucket->batch_labels
                           ? bucket_order_init(&bucket->order, window, rows)
                           : ERROR_MEMORY;
    if (!error)
        error = reader_open(store, &bucket->reader);
    if (error)
        pull_bucket_release(bucket);
    return error;
}

void pull_bucket_release(struct pull_bucket *bucket)
{
    reader_close(bucket->reader);
    bucket_order_release(&bucket->order);
    free(bucket->ids);
    free(bucket->labels);
    free(bucket->lengths);
    free(bucket->batch_ids);
    free(bucket->batch_labels);
    *bucket = (struct pull_bucket){.reader = NULL};
}

/* ---- one window --------------------------------------------------------- */

/* The window that contains batch `index`; the stream may end before `*ret_end`. */
static void find_window(const struct pull_bucket *bucket, const struct pull_plan *plan,
                        int64_t index, int64_t *ret_begin, int64_t *ret_end)
{
    int64_t window = (int64_t)bucket->window, epoch = plan->epoch_batches;
    int64_t start = epoch > 0 ? index / epoch * epoch : 0; /* batch 0 of the epoch */
    *ret_begin = start + (index - start) / window * window;
    *ret_end = *ret_begin + window;
    if (epoch > 0 && *ret_end > start + epoch)
        *ret_end = start + epoch;
}

/* The part of the response that belongs to the window; advances *at after its batches. */
static void take_answer(struct pull_bucket *bucket, const struct pull_answer *answer,
                        size_t batch_rows, int64_t end, int64_t *at)
{
    const struct sampler_batch *batch = &answer->batch;
    size_t skip = answer->request.skip_rows, rows = batch->rows - skip;
    size_t most = (size_t)(end - *at) * batch_rows;
    rows = rows < most ? rows : most;
    if (bucket->units == 0) {
        bucket->first = batch->first + (int64_t)skip;
        bucket->epoch = batch->epoch;
    }
    memcpy(bucket->ids + bucket->units, batch->ids + skip, rows * sizeof(*bucket->ids));
    memcpy(bucket->labels + bucket->units, batch->labels + skip, rows * sizeof(*bucket->labels));
    bucket->units += rows;
    *at += (int64_t)((rows + batch_rows - 1) / batch_rows);
}

/* Up to the end of the stream. */
static enum error gather(struct pull_bucket *bucket, struct pull_connection *connection,
                         struct pull_plan *plan, struct pull_answer *answer, int64_t begin,
                         int64_t end)
{
    struct puller *puller = connection->puller;
    int64_t at = begin;
    enum error error = OK;
    bucket->units = 0;
    while (at < end && !error) {
        puller->next_index = at;
        error = pull_answer_get(answer, connection, plan);
        if (!error)
            take_answer(bucket, answer, puller->options.batch_rows, end, &at);
    }
    if (error && (error != ERROR_END || bucket->units == 0))
        return error;
    bucket->begin = begin;
    bucket->end = at;
    return OK;
}

static enum error make_window(struct pull_bucket *bucket, struct pull_connection *connection,
                              struct pull_plan *plan, struct pull_answer *answer, int64_t index)
{
    const struct sampler_stream *stream = &connection->puller->stream;
    int64_t begin, end;
    find_window(bucket, plan, index, &begin, &end);
    bucket->begin = bucket->end = 0;
    enum error error = gather(bucket, connection, plan, answer, begin, end);
    if (!error)
        error = reader_lengths(bucket->reader, bucket->ids, bucket->units, bucket->lengths);
    if (error) {
        bucket->begin = bucket->end = 0;
        return error;
    }
    bucket_order_make(&bucket->order, bucket->lengths, bucket->units, stream->seed, begin);
    return OK;
}

/* ---- one batch ---------------------------------------------------------- */

/* Its epoch is that of the sampler's batch `index`: a window may begin in an earlier one. */
static enum error push_batch(const struct pull_bucket *bucket, struct puller *puller,
                             const struct pull_plan *plan, int64_t index)
{
    const uint32_t *units;
    size_t rows = bucket_order_batch(&bucket->order, (size_t)(index - bucket->begin), &units);
    int64_t epoch = pull_plan_epoch(plan, index);
    struct sampler_batch batch = {.epoch = epoch < 0 ? bucket->epoch : epoch,
                                  .first = bucket->first,
                                  .rows = rows,
                                  .ids = bucket->batch_ids,
                                  .labels = bucket->batch_labels};
    int64_t pushed;
    for (size_t i = 0; i < rows; i++) {
        bucket->batch_ids[i] = bucket->ids[units[i]];
        bucket->batch_labels[i] = bucket->labels[units[i]];
    }
    puller->next_index = index;
    return pull_push(puller, &batch, 0, 1, 0, &pushed);
}

enum error pull_bucket_push(struct pull_bucket *bucket, struct pull_connection *connection,
                            struct pull_plan *plan, struct pull_answer *answer, int64_t index)
{
    enum error error = OK;
    if (index < bucket->begin || index >= bucket->end)
        error = make_window(bucket, connection, plan, answer, index);
    if (error)
        return error;
    if (index >= bucket->end)
        return error_set(ERROR_END, "the stream has ended");
    return push_batch(bucket, connection->puller, plan, index);
}
