/* SPDX-License-Identifier: MIT */
#include "loader/feed/stream_check.h"

#include <inttypes.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"

/* Without replacement an epoch as long as the frame contains every unit. Not so with bernoulli,
 * which only the design's name in GET /streams/NAME shows. */
static bool draws_all(const struct sampler_stream *stream)
{
    return !stream->replacement && stream->epoch_draws >= stream->units &&
           strcmp(stream->design, "bernoulli") != 0;
}

static enum error refuse(const struct sampler_stream *stream, const char *url,
                         const struct store_info *store)
{
    const char *bad = store->first_bad_row;
    return error_set(ERROR_INPUT,
                     "%s has %" PRId64 " %s, the sampler at %s draws from %" PRId64
                     " units: at least %" PRId64 " of them have no row; the store that the "
                     "sampler's frame was made of is right (--bad-rows skip goes on without what "
                     "is missing)%s%s",
                     store->uri, store->rows, text_plural(store->rows, "row", "rows"), url,
                     stream->units, stream->units - store->rows, bad ? "; besides: " : "",
                     bad ? bad : "");
}

enum error stream_check_rows(const struct sampler_stream *stream, const char *url,
                             const struct store_info *store, bool fails_on_missing)
{
    if (stream->units == store->rows)
        return OK;
    bool lacks = stream->units > store->rows;
    if (lacks && fails_on_missing && draws_all(stream))
        return refuse(stream, url, store);
    log_message(lacks ? LOG_WARNING : LOG_INFO,
                "the sampler at %s draws from %" PRId64 " %s; %s has %" PRId64 " %s", url,
                stream->units, text_plural(stream->units, "unit", "units"), store->uri, store->rows,
                text_plural(store->rows, "row", "rows"));
    return OK;
}
