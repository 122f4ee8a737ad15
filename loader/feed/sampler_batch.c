/* SPDX-License-Identifier: MIT */
#include "loader/feed/sampler_batch.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/text.h"

static enum error check_header(const struct sampler_batch_header *header, bool listed)
{
    if (header->flags != (listed ? SAMPLER_BATCH_LISTED : 0))
        return error_set(ERROR_INPUT, "a batch with flags %" PRIu32 "; %d is what was asked for",
                         header->flags, listed ? SAMPLER_BATCH_LISTED : 0);
    if (header->rows == 0 || header->rows > SAMPLER_BATCH_ROWS_LIMIT)
        return error_set(ERROR_INPUT, "a batch of %" PRIu32 " units; 1 to %d are possible",
                         header->rows, SAMPLER_BATCH_ROWS_LIMIT);
    if (header->epoch < 0 || header->first < 0)
        return error_set(ERROR_INPUT,
                         "a batch of epoch %" PRId64 " at position %" PRId64
                         "; neither can be negative",
                         header->epoch, header->first);
    if (header->first > INT64_MAX - header->rows)
        return error_set(ERROR_INPUT,
                         "a batch of %" PRIu32 " %s from position %" PRId64
                         " on; no order is that long",
                         header->rows, text_plural(header->rows, "unit", "units"), header->first);
    return OK;
}

/* Of the only batch, or of the first one in a list. */
static enum error check_length(const struct sampler_batch_header *header, size_t length,
                               bool listed)
{
    size_t right = sampler_batch_bytes(header->rows, listed);
    if (listed ? length >= right : length == right)
        return OK;
    return error_set(ERROR_INPUT, "a batch of %" PRIu32 " %s in %zu bytes; it takes %zu",
                     header->rows, text_plural(header->rows, "unit", "units"), length, right);
}

/* One test for all ids: the sign bit of their bitwise OR. */
static enum error check_ids(const int64_t *ids, size_t count)
{
    int64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= ids[i];
    if (all >= 0)
        return OK;
    size_t at = 0;
    while (ids[at] >= 0)
        at++;
    return error_set(ERROR_INPUT, "a batch with id %" PRId64 " at place %zu; ids are 0 to 2^63-1",
                     ids[at], at);
}

static enum error parse(const char *bytes, size_t length, bool listed,
                        struct sampler_batch *ret_batch)
{
    struct sampler_batch_header header;
    char shown[TEXT_QUOTE_BYTES];
    if (length < sizeof(header) || memcmp(bytes, SAMPLER_BATCH_MAGIC, sizeof(header.magic)) != 0)
        return error_set(ERROR_INPUT,
                         "%zu bytes that are not a binary batch (%s; a batch starts with \"%s\")",
                         length, text_quote(shown, sizeof(shown), bytes, length < 24 ? length : 24),
                         SAMPLER_BATCH_MAGIC);
    assert((uintptr_t)bytes % sizeof(int64_t) == 0);
    memcpy(&header, bytes, sizeof(header));
    enum error error = check_header(&header, listed);
    if (!error)
        error = check_length(&header, length, listed);
    if (error)
        return error;
    const int64_t *ids = (const void *)(bytes + sampler_batch_ids_at(listed));
    error = check_ids(ids, header.rows);
    if (error)
        return error;
    *ret_batch = (struct sampler_batch){.epoch = header.epoch,
                                        .first = header.first,
                                        .rows = header.rows,
                                        .ids = ids,
                                        .labels = (const uint32_t *)(ids + header.rows)};
    return OK;
}

enum error sampler_batch_parse(const void *bytes, size_t length, struct sampler_batch *ret_batch)
{
    return parse(bytes, length, false, ret_batch);
}

enum error sampler_batch_parse_listed(const void *bytes, size_t length,
                                      struct sampler_batch *ret_batch, size_t *ret_used)
{
    struct sampler_batch batch;
    enum error error = parse(bytes, length, true, &batch);
    if (error)
        return error;
    struct sampler_lease *lease = &batch.lease;
    memcpy(lease, (const char *)bytes + SAMPLER_BATCH_HEADER_BYTES, sizeof(*lease));
    if (lease->seq < 0 || lease->attempt < 1 || lease->expires_ms < 0)
        return error_set(ERROR_INPUT,
                         "a lease with seq %" PRId64 ", attempt %" PRId64 " and %" PRId64
                         " ms left; the smallest are 0, 1 and 0",
                         lease->seq, lease->attempt, lease->expires_ms);
    *ret_batch = batch;
    *ret_used = sampler_batch_bytes(batch.rows, true);
    return OK;
}
