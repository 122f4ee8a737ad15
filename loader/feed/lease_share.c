/* SPDX-License-Identifier: MIT */
#include "loader/feed/lease_share.h"

#define SHARE 4
#define OF_A_FAIR_SHARE 2
#define RECENT_BATCHES 64
#define WORKERS_LIMIT 1024
#define BEGIN_BATCHES 4
#define REQUESTS 2 /* that bring everything leased ahead */

void lease_share_begin(struct lease_share *share, const struct sampler_stream *stream)
{
    int64_t end;
    if (stream->epochs == 0 || __builtin_mul_overflow(stream->epochs, stream->epoch_draws, &end))
        end = INT64_MAX;
    *share = (struct lease_share){
        .epoch_draws = stream->epoch_draws, .end = end, .position = stream->position};
}

/* Redelivered batches may be anywhere. The position may also move back: a stream can be set to an
 * earlier one. */
void lease_share_drawn(struct lease_share *share, const struct sampler_batch *batch)
{
    int64_t rows = (int64_t)batch->rows;
    if (batch->lease.attempt > 1)
        return;
    if (share->own / rows >= RECENT_BATCHES) { /* workers come and go */
        share->own /= 2;
        share->moved /= 2;
    }
    int64_t next = batch->first + rows, most = WORKERS_LIMIT * rows;
    int64_t moved = next - share->position;
    share->own += rows;
    share->moved += moved < most ? moved : most;
    if (moved < 0 || share->moved < share->own)
        share->moved = share->own;
    share->position = next;
}

/* One in this many of what is left may be leased ahead. */
static int64_t divisor(const struct lease_share *share)
{
    int64_t workers = share->own > 0 ? (share->moved + share->own / 2) / share->own : 1;
    return workers > SHARE / OF_A_FAIR_SHARE ? workers * OF_A_FAIR_SHARE : SHARE;
}

int64_t lease_share_most(const struct lease_share *share, size_t batch_rows, int64_t handed)
{
    int64_t rows = (int64_t)batch_rows;
    if (share->epoch_draws == 0)
        return INT64_MAX;
    int64_t left = share->end > share->position ? share->end - share->position : 0;
    if (left > share->epoch_draws)
        left = share->epoch_draws;
    int64_t most = (left / rows + (left % rows > 0)) / divisor(share);
    if (most > BEGIN_BATCHES + handed)
        most = BEGIN_BATCHES + handed;
    return most > 0 ? most : 1;
}

int64_t lease_share_enough(const struct lease_share *share, size_t batch_rows, int64_t handed,
                           size_t at_once)
{
    int64_t most = lease_share_most(share, batch_rows, handed);
    int64_t request = most / REQUESTS + most % REQUESTS;
    return most - (request < (int64_t)at_once ? request : (int64_t)at_once);
}
