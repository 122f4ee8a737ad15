/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_push.h"

#include "loader/feed/puller_private.h"

enum error pull_push(struct puller *puller, const struct sampler_batch *answer, size_t skip,
                     int64_t limit, int64_t epoch_draws, int64_t *ret_pushed)
{
    int64_t pushed = 0;
    for (size_t at = skip; at < answer->rows && pushed != limit; at += puller->options.batch_rows) {
        size_t left = answer->rows - at;
        struct pull pull = {.first = answer->first + (int64_t)at,
                            .epoch = answer->epoch,
                            .index = puller->next_index,
                            .seq = answer->lease.seq,
                            .attempt = answer->lease.attempt,
                            .rows = left < puller->options.batch_rows ? left
                                                                      : puller->options.batch_rows};
        if (epoch_draws > 0)
            pull.epoch = pull.first / epoch_draws;
        enum error error =
            pull_queue_push(puller->queue, &pull, answer->ids + at, answer->labels + at);
        if (error)
            return error;
        puller->next_index++;
        ring_pulled(puller->ring, ++puller->pulled);
        pushed++;
    }
    *ret_pushed = pushed;
    return OK;
}
