/* SPDX-License-Identifier: MIT */
/* Opening a feed: its cache, ring and queue, and then its stages, from last to first. */
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/machine.h"
#include "loader/feed/feed_private.h"
#include "loader/store/row_cache.h"

/* A copy of this size costs about as much as waking the copying thread; a larger one could exceed
 * the timeout of feed_next(). */
#define CALLER_COPIES_BYTES ((size_t)1 << 20)

/* NULL stays NULL. */
static enum error copy_text(const char *text, char **ret_copy)
{
    if (!text)
        return OK;
    *ret_copy = strdup(text);
    return *ret_copy ? OK : error_set_memory(strlen(text), "a name");
}

bool feed_expands(const struct feed *feed)
{
    return feed->options.expand && store_info(feed->options.store)->element == ELEMENT_U8;
}

static enum error make_cache(struct feed *feed)
{
    size_t limit = feed->options.cache_bytes;
    struct machine machine;
    if (limit == 0 || store_info(feed->options.store)->features == 0)
        return OK;
    machine_look(&machine);
    if (machine.memory_bytes && limit > machine.memory_bytes / 2)
        limit = (size_t)(machine.memory_bytes / 2); /* the other half is for training */
    return row_cache_open(feed->options.store, limit, feed->options.reserve_bytes, &feed->cache);
}

/* Floats are converted from rows in the cache: bytes are read once, and written nowhere. */
static bool finds(const struct feed *feed)
{
    return feed->cache && feed_expands(feed) && feed->options.device->kind == DEVICE_CPU &&
           !feed->resident && store_info(feed->options.store)->lengths == LENGTHS_ALIKE;
}

/* With rows on the device, one thread copies, in the order of the batches. */
static bool copies_fast(const struct feed *feed)
{
    return feed->options.device->kind == DEVICE_CPU && !feed->resident &&
           feed->row_bytes <= CALLER_COPIES_BYTES / feed->options.batch_rows;
}

/* Without resident rows each batch is copied. */
static enum error make_resident(struct feed *feed)
{
    const struct feed_options *options = &feed->options;
    int64_t rows = feed_options_resident_rows(options);
    if (rows == 0)
        return OK;
    enum error error = resident_set_new(store_info(options->store), options->device, rows,
                                        options->batch_rows, options->slots, &feed->resident);
    if (error == ERROR_MEMORY) {
        log_warning("no rows stay on the device: %s", error_message());
        error = OK;
    }
    return error;
}

static enum error make_ring(struct feed *feed)
{
    const struct feed_options *options = &feed->options;
    const struct store_info *info = store_info(options->store);
    size_t fetched_bytes = info->features * element_bytes(info->element);
    feed->row_bytes =
        feed_expands(feed) ? info->features * element_bytes(ELEMENT_F32) : fetched_bytes;
    bool own_memory = feed_expands(feed) || feed->resident || options->device->kind != DEVICE_CPU;
    struct ring_shape shape = {.slots = options->slots,
                               .rows = options->batch_rows,
                               .row_bytes = fetched_bytes,
                               .device_row_bytes = own_memory ? feed->row_bytes : 0,
                               .label_bytes = label_element_host_bytes(options->labels),
                               .one_hot_bytes =
                                   label_one_hot_bytes(options->labels, options->classes),
                               .has_lengths = info->lengths != LENGTHS_ALIKE,
                               .has_places = feed->resident || finds(feed),
                               .weight_bytes = weight_element_bytes(options->weights),
                               .group_bytes = options->groups ? sizeof(int64_t) : 0,
                               .targets = options->targets,
                               .caller_copies = copies_fast(feed)};
    return ring_new(&shape, options->device, &feed->ring);
}

/* From last to first, so that each stage finds the next one running. */
static enum error start_stages(struct feed *feed)
{
    const struct feed_options *options = &feed->options;
    const struct store_info *info = store_info(options->store);
    struct copier_options copier = {.device = options->device,
                                    .batch_rows = options->batch_rows,
                                    .row_elements = info->features,
                                    .row_bytes = info->features * element_bytes(info->element),
                                    .expand = feed_expands(feed),
                                    .scale = options->scale,
                                    .moments = options->moments,
                                    .labels = options->labels,
                                    .classes = options->classes,
                                    .store = info,
                                    .resident = feed->resident,
                                    .weights = options->weights};
    struct fetcher_options fetcher = {.store = feed->cache ? feed->cache : options->store,
                                      .device = options->device,
                                      .threads = options->fetchers,
                                      .batch_rows = options->batch_rows,
                                      .bad_rows = options->bad_rows,
                                      .labels = feed->labels,
                                      .resident = feed->resident,
                                      .finds = finds(feed),
                                      .attributes = feed->attributes,
                                      .weights = options->weights,
                                      .wants_integers = options->wants_integers};
    struct puller_options puller = {.url = feed->url,
                                    .credentials = &feed->credentials,
                                    .stream = feed->stream,
                                    .patience_ms = options->patience_ms,
                                    .pull = options->pull,
                                    .walk = {.first = options->first_index,
                                             .rank = options->rank,
                                             .world = options->world,
                                             .part = options->part,
                                             .parts = options->parts,
                                             .pad = options->pad,
                                             .done = &feed->done},
                                    .expected = options->expected,
                                    .batches = options->batches,
                                    .batch_rows = options->batch_rows,
                                    .connections = options->draws_ahead,
                                    .leases = feed->leases,
                                    .leases_at_once = feed_options_leases_at_once(options),
                                    .labels = feed->labels,
                                    .store = info,
                                    .bucket_window = options->bucket_window,
                                    .lengths = options->store,
                                    .fails_on_bad_rows = options->bad_rows == BAD_ROWS_FAIL};
    enum error error = copier_start(&copier, feed->ring, &feed->copier);
    if (!error)
        error = fetchers_start(&fetcher, feed->queue, feed->ring, &feed->fetchers);
    if (!error)
        error = puller_start(&puller, feed->queue, feed->ring, &feed->puller);
    return error;
}

/* What `options` borrow for the time of feed_open() only. */
static enum error copy_borrowed(struct feed *feed, const struct feed_options *options)
{
    enum error error = copy_text(options->sampler_url, &feed->url);
    if (!error)
        error = copy_text(options->stream, &feed->stream);
    if (!error)
        error = copy_text(options->token, &feed->token);
    if (!error)
        error = copy_text(options->authority, &feed->authority);
    if (!error && options->done)
        error = index_set_copy(&feed->done, options->done);
    feed->options.sampler_url = feed->url;
    feed->options.stream = feed->stream;
    feed->options.done = NULL;
    feed->credentials = (struct http_credentials){feed->token, feed->authority};
    if (options->expected) {
        feed->expected = *options->expected;
        feed->options.expected = &feed->expected;
    }
    return error;
}

static enum error feed_init(struct feed *feed, const struct feed_options *options)
{
    feed->opened_ns = clock_now_ns();
    feed->options = *options;
    store_keep(options->store);
    device_keep(options->device);
    enum error error = feed_options_complete(&feed->options);
    if (!error)
        error = feed_prepare_to_close(feed);
    if (!error)
        error = copy_borrowed(feed, options);
    if (!error && (options->weights != WEIGHTS_NONE || options->groups))
        error = row_attributes_read(options->store, options->weights != WEIGHTS_NONE,
                                    options->groups, &feed->attributes);
    if (!error)
        error = make_cache(feed);
    if (!error)
        error = make_resident(feed);
    if (!error)
        error = make_ring(feed);
    if (!error)
        error = pull_queue_new(feed_options_queue_capacity(&feed->options), options->batch_rows,
                               &feed->queue);
    if (!error && !options->trust_labels)
        error = label_check_new(store_info(options->store), &feed->labels);
    if (!error && options->pull == FEED_LEASE)
        error = lease_keeper_start(feed->url, &feed->credentials, feed->stream, options->worker,
                                   options->patience_ms, &feed->leases);
    if (feed->leases)
        lease_keeper_watch(feed->leases, &feed->closing->unacked);
    if (!error) {
        feed->batches = array_new(feed->options.slots, sizeof(*feed->batches), "batches");
        error = feed->batches ? start_stages(feed) : ERROR_MEMORY;
    }
    return error;
}

enum error feed_open(const struct feed_options *options, struct feed **ret_feed)
{
    struct feed *feed = array_new(1, sizeof(*feed), "a feed");
    if (!feed)
        return ERROR_MEMORY;
    enum error error = feed_init(feed, options);
    if (error)
        feed_close(feed);
    else
        *ret_feed = feed;
    return error;
}
