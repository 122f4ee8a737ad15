/* SPDX-License-Identifier: MIT */
#include "loader/feed/sampler_batch.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/text.h"

static enum error check_header(const struct sampler_batch_header *header, size_t length)
{
    if (header->flags != 0)
        return error_set(ERROR_INPUT, "a batch with flags %" PRIu32 ", of which none is known here",
                         header->flags);
    if (header->rows == 0 || header->rows > SAMPLER_BATCH_ROWS_LIMIT)
        return error_set(ERROR_INPUT, "a batch of %" PRIu32 " units; 1 to %d are possible",
                         header->rows, SAMPLER_BATCH_ROWS_LIMIT);
    size_t right = SAMPLER_BATCH_HEADER_BYTES + (size_t)header->rows * SAMPLER_BATCH_UNIT_BYTES;
    if (length != right)
        return error_set(ERROR_INPUT, "a batch of %" PRIu32 " %s in %zu bytes; it takes %zu",
                         header->rows, text_plural(header->rows, "unit", "units"), length, right);
    if (header->epoch < 0 || header->first < 0)
        return error_set(ERROR_INPUT,
                         "a batch of epoch %" PRId64 " at position %" PRId64
                         "; neither can be negative",
                         header->epoch, header->first);
    return OK;
}

/* One test for all ids: the sign bit of their union. */
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

enum error sampler_batch_parse(const void *bytes, size_t length, struct sampler_batch *ret_batch)
{
    struct sampler_batch_header header;
    char shown[TEXT_QUOTE_BYTES];
    if (length < sizeof(header) || memcmp(bytes, SAMPLER_BATCH_MAGIC, sizeof(header.magic)) != 0)
        return error_set(ERROR_INPUT,
                         "%zu bytes that are no binary batch (%s; a batch starts with \"%s\")",
                         length, text_quote(shown, sizeof(shown), bytes, length < 24 ? length : 24),
                         SAMPLER_BATCH_MAGIC);
    assert((uintptr_t)bytes % sizeof(int64_t) == 0);
    memcpy(&header, bytes, sizeof(header));
    enum error error = check_header(&header, length);
    if (error)
        return error;
    const int64_t *ids = (const int64_t *)((const char *)bytes + sizeof(header));
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
