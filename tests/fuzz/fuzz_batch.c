/* SPDX-License-Identifier: MIT */
/* A sampler's binary batch, and a list of them: whatever comes, either an error with a message or
 * arrays that lie within the bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "loader/feed/sampler_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static volatile uint64_t sink; /* keeps the reads */

static void check(const struct sampler_batch *batch, bool listed, const char *bytes, size_t length)
{
    uint64_t sum = 0;
    const char *end = (const char *)(batch->labels + batch->rows);
    assert(batch->rows > 0 && batch->rows <= SAMPLER_BATCH_ROWS_LIMIT);
    assert(batch->epoch >= 0 && batch->first >= 0);
    assert(batch->first <= INT64_MAX - (int64_t)batch->rows);
    assert((const char *)batch->ids == bytes + sampler_batch_ids_at(listed));
    assert(listed ? end <= bytes + length : end == bytes + length);
    for (size_t i = 0; i < batch->rows; i++) {
        assert(batch->ids[i] >= 0);
        sum += (uint64_t)batch->ids[i] + batch->labels[i]; /* reads each */
    }
    sink = sum;
}

static void parse_list(const char *bytes, size_t length)
{
    struct sampler_batch batch;
    size_t used;
    for (; !sampler_batch_parse_listed(bytes, length, &batch, &used);
         bytes += used, length -= used) {
        assert(used > 0 && used <= length && used % 8 == 0);
        assert(batch.lease.seq >= 0 && batch.lease.attempt > 0 && batch.lease.expires_ms >= 0);
        check(&batch, true, bytes, used);
    }
    assert(strlen(error_message()) > 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct sampler_batch batch;
    char *bytes = malloc(length ? length : 1); /* aligned, and the sanitizer sees its end */
    if (!bytes)
        return 0;
    if (length > 0)
        memcpy(bytes, data, length);
    if (!sampler_batch_parse(bytes, length, &batch))
        check(&batch, false, bytes, length);
    else
        assert(strlen(error_message()) > 10);
    parse_list(bytes, length);
    free(bytes);
    return 0;
}
