/* SPDX-License-Identifier: MIT */
#include "loader/feed/feed_options.h"

#include <inttypes.h>
#include <unistd.h>

#include "common/log.h"
#include "loader/feed/bucket_order.h"
#include "loader/feed/fetcher.h"
#include "loader/feed/one_hot.h"
#include "loader/feed/puller.h"
#include "loader/feed/rank_walk.h"
#include "loader/feed/resident_set.h"
#include "loader/feed/ring.h"
#include "loader/feed/sampler_batch.h"

#define SLOTS_FEW 8
#define SLOTS_LEASED 16
#define SLOTS_MANY 64
#define SLOTS_BYTES (32u << 20)
/* Few targets for floats converted from bytes, so that they stay in the second-level cache
 * (README). */
#define TARGETS_LEAST 4
#define CACHE_BYTES (1u << 20) /* if the system reports none */
/* Large batches: a slot each for filling, copying and training, and more while all of them need
 * fewer than this many bytes. */
#define SLOTS_LEAST 3
#define SLOTS_MOST_BYTES (256u << 20)
#define DRAWS_AHEAD_DEFAULT 4
/* Two requests for eight leases each, and 16 slots: an epoch of MNIST in batches of 100 takes 16 ms
 * instead of 46 with one lease per request; 64 slots would save another ms, but leases must expire
 * before others get them if this process dies. */
#define LEASES_AT_ONCE 8
#define LEASED_ROWS_AT_ONCE 4096 /* larger batches: fewer leases, as each hides a request */
#define LEASES_AHEAD_DEFAULT 2
/* Ids in the pull queue: enough to hide a request's latency, few for large batches. */
#define QUEUE_ROWS 8192
#define QUEUE_CAPACITY_LIMIT 64
#define CLOSE_MS_DEFAULT 500
#define RESIDENT_SHARE 2

static enum error check_count(const char *what, size_t value, size_t minimum, size_t maximum)
{
    if (value >= minimum && value <= maximum)
        return OK;
    return error_set(ERROR_USAGE, "a feed with %zu %s; %zu to %zu are possible", value, what,
                     minimum, maximum);
}

/* Within the byte limit of large batches, in host and device memory. */
static size_t most_slots(const struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    size_t fetched_bytes = info->features * element_bytes(info->element) + sizeof(double) +
                           label_element_bytes(options->labels, options->classes);
    size_t device_bytes = options->device->kind == DEVICE_CPU ? 0 : fetched_bytes;
    if (options->expand && info->element == ELEMENT_U8)
        device_bytes = info->features * element_bytes(ELEMENT_F32);
    return SLOTS_MOST_BYTES / (fetched_bytes + device_bytes) / (options->batch_rows + 1);
}

/* While other processes have the processor for some milliseconds the pipeline stands still; 64
 * small batches bridge that (measured on a busy machine: 2 to 6 % of the time waited with 8 slots,
 * 0.1 to 0.4 % with 64). Draws use few: unused draws are lost when a consumer leaves, and others
 * wait for its leases until they expire. */
static size_t usual_slots(enum feed_pull pull)
{
    switch (pull) {
    case FEED_DRAW:
        return SLOTS_FEW;
    case FEED_LEASE:
        return SLOTS_LEASED;
    case FEED_INDEX:
    case FEED_GRANTED:
        break;
    }
    return SLOTS_MANY;
}

static size_t default_slots(const struct feed_options *options)
{
    size_t row_bytes = (store_info(options->store)->features + 1) * sizeof(float);
    size_t most = most_slots(options);
    if (most < SLOTS_FEW)
        return most < SLOTS_LEAST ? SLOTS_LEAST : most;
    if (options->batch_rows >= SLOTS_BYTES / row_bytes / SLOTS_FEW)
        return SLOTS_FEW;
    size_t fit = SLOTS_BYTES / row_bytes / (options->batch_rows + 1);
    size_t limit = usual_slots(options->pull);
    return fit < limit ? fit : limit;
}

size_t feed_options_leases_at_once(const struct feed_options *options)
{
    size_t fit = LEASED_ROWS_AT_ONCE / options->batch_rows;
    size_t limit = options->slots < LEASES_AT_ONCE ? options->slots : LEASES_AT_ONCE;
    return fit < 1 ? 1 : fit < limit ? fit : limit;
}

static size_t default_targets(const struct feed_options *options)
{
    long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
    size_t cache_bytes = known > 0 ? (size_t)known : CACHE_BYTES;
    size_t row_bytes = store_info(options->store)->features * sizeof(float) + 1;
    size_t fit = cache_bytes / row_bytes / (options->batch_rows + 1);
    return fit < TARGETS_LEAST ? TARGETS_LEAST : fit;
}

static enum error check_sizes(struct feed_options *options)
{
    enum error error = /* first: defaults depend on it */
        check_count("rows a batch", options->batch_rows, 1, SAMPLER_BATCH_ROWS_LIMIT);
    if (error)
        return error;
    if (options->targets == 0)
        options->targets = options->slots ? options->slots : default_targets(options);
    if (options->slots == 0)
        options->slots = default_slots(options);
    if (options->draws_ahead == 0)
        options->draws_ahead =
            options->pull == FEED_LEASE ? LEASES_AHEAD_DEFAULT : DRAWS_AHEAD_DEFAULT;
    if (options->fetchers == 0)
        options->fetchers = 1;
    if (options->close_ms == 0)
        options->close_ms = CLOSE_MS_DEFAULT;
    error = check_count("slots", options->slots, 2, RING_SLOTS_LIMIT);
    if (!error)
        error = check_count("draws ahead", options->draws_ahead, 1, PULLER_CONNECTIONS_LIMIT);
    if (!error)
        error = check_count("fetchers", options->fetchers, 1, FETCHERS_LIMIT);
    if (!error)
        error = rank_walk_check(options->rank, options->world, options->part, options->parts);
    if (options->world == 0)
        options->world = 1;
    if (options->parts == 0)
        options->parts = 1;
    if (!error && options->pull == FEED_INDEX &&
        (options->first_index < 0 || options->first_index > RANK_WALK_BATCHES_LIMIT))
        error = error_set(ERROR_USAGE,
                          "first_index is %" PRId64 "; batches are numbered from 0 to %" PRId64,
                          options->first_index, RANK_WALK_BATCHES_LIMIT);
    return error;
}

static enum error check_labels(struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    options->labels = label_element_choose(options->labels, info->label_kind);
    if (label_element_is_one_hot(options->labels))
        return one_hot_classes(options->store, options->classes, &options->classes);
    if (options->classes > 0)
        return error_set(ERROR_USAGE,
                         "%zu classes are given for labels that are not one-hot; give 0",
                         options->classes);
    if (options->labels == LABELS_I64 && info->label_kind == LABEL_REAL)
        return error_set(ERROR_USAGE,
                         "labels as integers, but those of %s are real numbers: use floats",
                         info->uri);
    return OK;
}

static enum error check_moments(struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    if (info->element == ELEMENT_I32 && (options->expand || options->moments.channels > 0))
        return error_set(ERROR_USAGE,
                         "features of %s are 32-bit integers, which come as they are: neither "
                         "expanded to floats nor normalized",
                         info->uri);
    if (options->moments.channels > 0 && info->element == ELEMENT_U8 && !options->expand)
        return error_set(ERROR_USAGE, "features that are bytes cannot be normalized; expanded to "
                                      "floats they can");
    return feature_moments_check(&options->moments, info->features);
}

static enum error check_buckets(const struct feed_options *options, const struct store_info *info)
{
    size_t most = BUCKET_UNITS_LIMIT / options->batch_rows;
    if (options->pull != FEED_INDEX)
        return error_set(ERROR_USAGE, "buckets by length (bucket window) need batches by "
                                      "index: leases and draws come in stream order");
    if (info->lengths == LENGTHS_ALIKE)
        return error_set(ERROR_USAGE,
                         "buckets by length (bucket window) of %s, whose rows have one length; "
                         "longest= in the URI, or a store imported with it, has others",
                         info->uri);
    if (options->bucket_window > most)
        return error_set(ERROR_USAGE,
                         "a bucket window of %zu batches; 1 to %zu batches of %zu rows are "
                         "possible",
                         options->bucket_window, most, options->batch_rows);
    return OK;
}

/* Rows that differ in length: padding must remain zero, and a place on the device has room for one
 * length only. */
static enum error check_lengths(struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    enum error error = options->bucket_window > 0 ? check_buckets(options, info) : OK;
    if (error)
        return error;
    if (info->lengths == LENGTHS_ALIKE)
        return OK;
    if (options->moments.channels > 0)
        return error_set(ERROR_USAGE,
                         "%s has rows that differ in length, which are not normalized: the zeros "
                         "behind the shorter ones would become something else; scale alone is "
                         "possible",
                         info->uri);
    if (options->resident_bytes != 0 && options->resident_bytes != FEED_RESIDENT_AUTO)
        return error_set(ERROR_USAGE,
                         "%s has rows that differ in length, which do not stay on the device; "
                         "reserve no memory for them there (resident)",
                         info->uri);
    options->resident_bytes = 0;
    return OK;
}

/* Every batch would fail: a column of texts among the features, say. */
static enum error check_rows(const struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    if (options->bad_rows != BAD_ROWS_FAIL || !info->first_bad_row || info->bad_rows < info->rows)
        return OK;
    return error_set(ERROR_INPUT, "no row of the store can be used: %s", info->first_bad_row);
}

enum error feed_options_complete(struct feed_options *options)
{
    enum error error = check_rows(options);
    if (!error)
        error = check_labels(options);
    if (!error)
        error = check_sizes(options);
    if (!error)
        error = check_lengths(options);
    return error ? error : check_moments(options);
}

static double gibibytes(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

static int64_t resident_if_all_fit(const struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    uint64_t left = 0;
    uint64_t bytes = resident_set_bytes(info, info->rows, options->batch_rows, options->slots);
    if (options->device->kind == DEVICE_CPU)
        return 0;
    if (device_memory_left(options->device, &left))
        log_warning("no rows stay on the device: %s", error_message());
    else if (bytes <= left / RESIDENT_SHARE)
        return info->rows;
    else
        log_info(
            "no rows stay on the device: all of them take %.1f GiB, a half of the %.1f GiB that "
            "are left there is for them",
            gibibytes(bytes), gibibytes(left));
    return 0;
}

int64_t feed_options_resident_rows(const struct feed_options *options)
{
    const struct store_info *info = store_info(options->store);
    uint64_t limit = options->resident_bytes;
    uint64_t row_bytes = info->features * element_bytes(info->element);
    if (limit == 0 || row_bytes == 0)
        return 0;
    if (limit == FEED_RESIDENT_AUTO)
        return resident_if_all_fit(options);
    uint64_t own = resident_set_bytes(info, 0, options->batch_rows, options->slots);
    uint64_t fit = limit > own ? (limit - own) / row_bytes : 0;
    if (fit > RESIDENT_ROWS_LIMIT - options->batch_rows * options->slots)
        fit = RESIDENT_ROWS_LIMIT - options->batch_rows * options->slots;
    if (fit == 0)
        log_warning("no rows stay on the device: of %" PRIu64
                    " bytes, batches that wait take %" PRIu64,
                    limit, own);
    return fit < (uint64_t)info->rows ? (int64_t)fit : info->rows;
}

size_t feed_options_queue_capacity(const struct feed_options *options)
{
    size_t capacity = QUEUE_ROWS / options->batch_rows;
    if (options->pull ==
        FEED_DRAW) /* draws that are not delivered are lost: draw only what is needed */
        capacity = options->draws_ahead;
    if (options->pull == FEED_LEASE)
        capacity = feed_options_leases_at_once(options);
    if (capacity > QUEUE_CAPACITY_LIMIT)
        capacity = QUEUE_CAPACITY_LIMIT;
    return capacity < 2 ? 2 : capacity;
}
