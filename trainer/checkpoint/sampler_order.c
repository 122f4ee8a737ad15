/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/sampler_order.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "loader/feed/sampler_client.h"

#define CONNECT_MS 150L
#define PEEK_MS 300

enum error sampler_order_fetch(const char *url, const char *stream, int64_t patience_ms,
                               struct sampler_stream *ret_stream)
{
    struct sampler_client *client = NULL;
    enum error error = sampler_client_open(url, NULL, stream, patience_ms, &client);
    if (!error)
        error = sampler_client_describe(client, ret_stream);
    sampler_client_close(client);
    return error;
}

/* Every request to a server that refuses connections is retried and logged; a bare connection finds
 * out silently. It sends nothing, so that any certificate will do: the request that follows knows
 * the authorities. */
static bool takes_connections(const char *url)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return false;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, url);
    code |= curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, CONNECT_MS);
    code |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    code |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    code |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    if (code == CURLE_OK)
        code = curl_easy_perform(easy);
    curl_easy_cleanup(easy);
    return code == CURLE_OK;
}

enum error sampler_order_peek(const char *url, const char *stream,
                              struct sampler_stream *ret_stream)
{
    if (!takes_connections(url))
        return error_set(ERROR_NETWORK, "%s accepts no connections at the moment", url);
    return sampler_order_fetch(url, stream, PEEK_MS, ret_stream);
}

/* `what` is also the name of the sampler's option. */
static enum error differs(const char *called, const char *what, const char *theirs,
                          const char *ours)
{
    return error_set(ERROR_CONFLICT,
                     "%s belongs to another order: its %s is %s, the sampler's is %s (start the "
                     "sampler with --%s %s, or with the --state that it had; or train into "
                     "another --logdir)",
                     called, what, theirs, ours, what, theirs);
}

static enum error differs_in_replacement(const char *called, bool theirs)
{
    return error_set(ERROR_CONFLICT,
                     "%s belongs to another order: its replacement is %s, the sampler's is %s "
                     "(start the sampler with%s --replacement, or with the --state that it had; or "
                     "train into another --logdir)",
                     called, theirs ? "yes" : "no", theirs ? "no" : "yes", theirs ? "" : "out");
}

/* The remaining differences: a design's own fields, and the sampler's version. */
static enum error compare_orders(const struct sampler_stream *theirs, const char *called,
                                 const struct sampler_stream *ours)
{
    if (strcmp(theirs->order, ours->order) == 0)
        return OK;
    if (theirs->order[0])
        return error_set(ERROR_CONFLICT,
                         "%s belongs to another order, %s, the sampler's is %s: the design's own "
                         "fields differ, or the sampler's version (train into another --logdir)",
                         called, theirs->order, ours->order);
    return error_set(ERROR_CONFLICT,
                     "%s was trained by a version whose orders had no name, and counted other "
                     "batches than this sampler has (train into another --logdir, with "
                     "--init-from to keep what was learnt)",
                     called);
}

static enum error compare_streams(const struct sampler_stream *theirs, const char *called,
                                  const struct sampler_stream *ours)
{
    if (strcmp(theirs->digest, ours->digest) != 0)
        return error_set(ERROR_CONFLICT,
                         "%s belongs to another frame: digest %s (%" PRId64 " %s), the sampler's "
                         "is %s (%" PRId64 " %s)",
                         called, theirs->digest, theirs->units,
                         text_plural(theirs->units, "unit", "units"), ours->digest, ours->units,
                         text_plural(ours->units, "unit", "units"));
    if (strcmp(theirs->design, ours->design) != 0)
        return differs(called, "design", theirs->design, ours->design);
    if (theirs->replacement != ours->replacement)
        return differs_in_replacement(called, theirs->replacement);
    if (strcmp(theirs->tail, ours->tail) != 0) /* decides where an epoch's batches end */
        return differs(called, "tail", theirs->tail, ours->tail);
    char left[32], right[32];
    snprintf(left, sizeof(left), "%" PRId64, theirs->seed);
    snprintf(right, sizeof(right), "%" PRId64, ours->seed);
    if (theirs->seed != ours->seed)
        return differs(called, "seed", left, right);
    return compare_orders(theirs, called, ours);
}

enum error sampler_order_compare_size(const struct stream_position *theirs, const char *called,
                                      int64_t batch_rows)
{
    if (theirs->batch_rows == batch_rows)
        return OK;
    return error_set(
        ERROR_CONFLICT, "%s counts batches of %" PRId64 " %s, this run has --batch-size %" PRId64,
        called, theirs->batch_rows, text_plural(theirs->batch_rows, "row", "rows"), batch_rows);
}

enum error sampler_order_compare(const struct stream_position *theirs, const char *called,
                                 const struct stream_position *ours)
{
    enum error error = compare_streams(&theirs->stream, called, &ours->stream);
    return error ? error : sampler_order_compare_size(theirs, called, ours->batch_rows);
}

enum error sampler_order_check_epochs(const struct stream_position *reached,
                                      const struct index_set *done, const char *called,
                                      const char *verb, int64_t epochs)
{
    int64_t before = reached->stream.epochs;
    if (epochs == before || !stream_position_has_cut_batch(reached, done))
        return OK;
    return error_set(ERROR_CONFLICT,
                     "%s %s the end of %" PRId64 " %s, whose last batch is short (tail span) and "
                     "holds other rows with other epochs (start the sampler with --epochs %" PRId64
                     ", or train into another --logdir)",
                     called, verb, before, text_plural(before, "epoch", "epochs"), before);
}
