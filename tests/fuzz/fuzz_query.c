/* SPDX-License-Identifier: MIT */
/* The first byte chooses: the query of GET /batch, or Accept. What was taken is usable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/batch/batch_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void use_query(const char *query, int64_t max_size)
{
    static struct batch_lease lease;
    struct batch_request request;
    if (batch_request_parse(query, max_size, &request, &lease)) {
        check(strlen(error_message()) > 0);
        return;
    }
    check(request.size >= 1 && request.size <= max_size);
    check(request.index >= -1);
    check(stream_name_is_valid(request.stream));
    check(!request.leased || worker_name_is_valid(lease.worker));
    check(!request.leased || (lease.seq >= 0 && lease.ack_count <= BATCH_ACKS_LIMIT));
    check(!request.leased || request.index < 0);
    check(request.batches >= 0 && request.batches <= BATCHES_LIMIT);
    check(request.batches == 0 || (request.leased && lease.seq <= SEQ_MOST - request.batches + 1));
    check((int)request.format >= 0 && (int)request.format < BATCH_FORMATS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    char *text = malloc(length); /* without the first byte, with a NUL */
    if (!text)
        return 0;
    memcpy(text, data + 1, length - 1);
    text[length - 1] = '\0';
    if (data[0] % 2 == 0)
        use_query(text, data[0] % 4 == 0 ? 1000000 : 1);
    else
        check((int)batch_format_of_accept(text, length - 1) < BATCH_FORMATS);
    free(text);
    return 0;
}
