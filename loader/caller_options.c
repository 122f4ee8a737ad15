/* SPDX-License-Identifier: MIT */
#include "loader/caller_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#include "common/machine.h"
#include "common/text.h"
#include "loader/feed/feed.h"
#include "loader/feed/rank_walk.h"

#define BATCH_ROWS_DEFAULT 100
#define PATIENCE_MS_DEFAULT 60000

static enum error check_options(const struct tombola_options *options)
{
    if (!options->sampler_url)
        return error_set(ERROR_USAGE, "sampler_url is NULL; give \"http://HOST:PORT\"");
    if (!options->store_uri)
        return error_set(ERROR_USAGE, "store_uri is NULL; give \"sqlite:PATH\" or \"csv:PATH\"");
    if (options->pull < TOMBOLA_LEASE || options->pull > TOMBOLA_DRAW)
        return error_set(ERROR_USAGE, "pull is %d; 0 to 2 (enum tombola_pull) are possible",
                         options->pull);
    if (options->worker && options->pull != TOMBOLA_LEASE)
        return error_set(ERROR_USAGE, "worker names the holder of leases: it is for TOMBOLA_LEASE");
    if (options->bad_rows < TOMBOLA_BAD_ROWS_FAIL || options->bad_rows > TOMBOLA_BAD_ROWS_REPLACE)
        return error_set(ERROR_USAGE, "bad_rows is %d; 0 to 2 (enum tombola_bad_rows) are possible",
                         options->bad_rows);
    bool has_ranks = options->rank != 0 || options->world != 0 || options->pad != 0 ||
                     options->part != 0 || options->parts != 0;
    if (options->pull != TOMBOLA_INDEX && (has_ranks || options->state))
        return error_set(ERROR_USAGE,
                         "rank, world, part, parts, pad and state are for TOMBOLA_INDEX: the "
                         "sampler divides and records leases and draws itself");
    enum error error =
        rank_walk_check(options->rank, options->world, options->part, options->parts);
    if (error)
        return error;
    if (options->pull != TOMBOLA_INDEX && options->bucket_window > 0)
        return error_set(ERROR_USAGE, "bucket_window is for TOMBOLA_INDEX: leases and draws come "
                                      "in stream order");
    if (options->pull != TOMBOLA_INDEX && options->first_index != 0)
        return error_set(ERROR_USAGE, "first_index is for TOMBOLA_INDEX: leases and draws go on "
                                      "where the stream is");
    if (options->state && options->first_index != 0)
        return error_set(ERROR_USAGE, "first_index is %lld with a state, which contains it",
                         (long long)options->first_index);
    if (options->labels < TOMBOLA_LABELS_HOST || options->labels > TOMBOLA_LABELS_ONE_HOT_U8)
        return error_set(ERROR_USAGE, "labels is %d; 0 to 6 (enum tombola_labels) are possible",
                         options->labels);
    if (options->weights < TOMBOLA_WEIGHTS_NONE || options->weights > TOMBOLA_WEIGHTS_F64)
        return error_set(ERROR_USAGE, "weights is %d; 0 to 2 (enum tombola_weights) are possible",
                         options->weights);
    if (!isfinite(options->scale))
        return error_set(ERROR_USAGE, "scale is %g; give a finite number, or 0 for 1/255",
                         (double)options->scale);
    if (options->batches < 0)
        return error_set(ERROR_USAGE, "batches is %lld; give 0 (to the stream's end) or more",
                         (long long)options->batches);
    return OK;
}

enum error caller_options_take(const struct tombola_options *given,
                               struct tombola_options *ret_options)
{
    const size_t known = sizeof(*ret_options);
    size_t bytes = given ? given->struct_bytes : 0;
    if (bytes < offsetof(struct tombola_options, batch_rows) || bytes > 65536)
        return error_set(ERROR_USAGE, "struct_bytes is %zu; give sizeof(struct tombola_options)",
                         bytes);
    for (size_t i = known; i < bytes; i++) {
        if (((const char *)given)[i] != 0)
            return error_set(ERROR_USAGE, "the options hold more than this libtombola (%s) knows",
                             PACKAGE_VERSION);
    }
    memset(ret_options, 0, known);
    memcpy(ret_options, given, bytes < known ? bytes : known);
    if (!ret_options->device)
        ret_options->device = "cpu";
    if (ret_options->batch_rows == 0)
        ret_options->batch_rows = BATCH_ROWS_DEFAULT;
    if (ret_options->scale == 0)
        ret_options->scale = 1.0f / 255;
    if (ret_options->patience_ms == 0)
        ret_options->patience_ms = PATIENCE_MS_DEFAULT;
    return check_options(ret_options);
}

/* By default half of the free memory; if several programs fill their caches at the same time, a
 * quarter still stays free. None with a file, which the system keeps in memory. */
static void choose_memory(size_t bytes, bool has_folder, struct caller_caches *caches)
{
    struct machine machine;
    if (bytes == TOMBOLA_NO_CACHE || (bytes == 0 && has_folder))
        return;
    caches->kept.bytes = bytes;
    if (bytes > 0)
        return;
    machine_look(&machine);
    caches->kept.bytes = (size_t)(machine.free_bytes / 2);
    caches->reserve_bytes = (size_t)(machine.free_bytes / 4);
}

static enum error choose_folder(const struct tombola_options *options, struct store_cache *kept)
{
    const char *limit = getenv("TOMBOLA_CACHE_LIMIT");
    int64_t bytes = 0;
    if (options->cache_limit == 0 && limit && limit[0] && !text_parse_bytes(limit, 0, &bytes))
        return error_set(ERROR_USAGE, "TOMBOLA_CACHE_LIMIT is \"%s\"; give a number of bytes",
                         limit);
    kept->folder = options->cache_dir ? options->cache_dir : getenv("TOMBOLA_CACHE");
    kept->folder_limit_bytes = options->cache_limit ? options->cache_limit : (uint64_t)bytes;
    return OK;
}

enum error caller_options_caches(const struct tombola_options *options,
                                 struct caller_caches *ret_caches)
{
    size_t resident = options->resident_bytes;
    struct caller_caches caches = {.resident_bytes = resident};
    enum error error = choose_folder(options, &caches.kept);
    if (error)
        return error;
    choose_memory(options->cache_bytes, caches.kept.folder && caches.kept.folder[0], &caches);
    if (resident == 0)
        caches.resident_bytes = FEED_RESIDENT_AUTO;
    else if (resident == TOMBOLA_NOT_RESIDENT)
        caches.resident_bytes = 0;
    *ret_caches = caches;
    return OK;
}
