/* SPDX-License-Identifier: MIT */
#include "loader/feed/feed.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/index_set.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/feed/copier.h"
#include "loader/feed/feed_options.h"
#include "loader/feed/fetcher.h"
#include "loader/feed/label_check.h"
#include "loader/feed/lease_keeper.h"
#include "loader/feed/pull_queue.h"
#include "loader/feed/puller.h"
#include "loader/feed/resident_set.h"
#include "loader/feed/ring.h"
#include "loader/feed/sampler_client.h"
#include "loader/store/row_attributes.h"
#include "loader/store/row_cache.h"

/* A copy of this size costs about as much as waking the copying thread; a larger one could exceed
 * the timeout of feed_next(). */
#define CALLER_COPIES_BYTES ((size_t)1 << 20)

#define ACK_SLICE_MS 100 /* between two looks for a signal */

/* Shared by a feed and the thread that ends and frees it, which may be left behind. */
struct closing {
    struct feed *feed;
    _Atomic(const char *) place; /* where it may hang; NULL: nowhere */
    _Atomic size_t unacked;      /* leases whose batches were put back */
    sem_t ended;                 /* posted when no thread of the feed is left */
    sem_t may_free;              /* posted when no batch is out */
};

struct feed {
    struct closing *closing;                /* freed by `errand` */
    struct errand *errand;                  /* ends and frees all else; allocated at open */
    bool is_ending;                         /* the errand was started */
    struct feed_options options;            /* defaults filled in */
    char *url, *stream, *token, *authority; /* owned copies of the options' texts */
    struct http_credentials credentials;    /* `token` and `authority` */
    struct sampler_stream expected;         /* a copy of the options' */
    struct index_set done;                  /* a copy of the options' */
    struct store *cache; /* of options.store; NULL: rows are fetched from the store itself */
    struct resident_set *resident;     /* NULL: no rows stay on the device */
    struct row_attributes *attributes; /* NULL: none are wanted */
    struct ring *ring;
    struct pull_queue *queue;
    struct label_check *labels;  /* NULL: the labels are trusted */
    struct lease_keeper *leases; /* NULL: not FEED_LEASE */
    struct puller *puller;
    struct fetchers *fetchers;
    struct copier *copier;
    struct feed_batch *batches; /* [K]: what the caller sees of each slot */
    size_t row_bytes;           /* of a row as it is handed out */
    int64_t opened_ns;
    int64_t next; /* number of the next batch */
    _Atomic int64_t batch_count, row_count, byte_count, bad_row_count, wait_ns, first_ns;
};

/* ---- opening ------------------------------------------------------------ */

/* NULL stays NULL. */
static enum error copy_text(const char *text, char **ret_copy)
{
    if (!text)
        return OK;
    *ret_copy = strdup(text);
    return *ret_copy ? OK : error_set_memory(strlen(text), "a name");
}

static bool expands(const struct feed *feed)
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
    return feed->cache && expands(feed) && feed->options.device->kind == DEVICE_CPU &&
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
    feed->row_bytes = expands(feed) ? info->features * element_bytes(ELEMENT_F32) : fetched_bytes;
    bool own_memory = expands(feed) || feed->resident || options->device->kind != DEVICE_CPU;
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
                                    .expand = expands(feed),
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

/* ---- closing ------------------------------------------------------------ */

static void end_stages(struct closing *closing)
{
    struct feed *feed = closing->feed;
    puller_stop(feed->puller);
    lease_keeper_stop(feed->leases);
    atomic_store(&closing->place, "the store");
    fetchers_stop(feed->fetchers);
    atomic_store(&closing->place, "the device");
    copier_stop(feed->copier);
    atomic_store(&closing->place, NULL);
}

static void free_all(void *context)
{
    struct closing *closing = context;
    struct feed *feed = closing->feed;
    end_stages(closing);
    sem_post(&closing->ended);
    while (sem_wait(&closing->may_free))
        ;
    label_check_free(feed->labels);
    row_attributes_free(feed->attributes);
    pull_queue_free(feed->queue);
    ring_free(feed->ring);
    resident_set_free(feed->resident);
    atomic_store(&closing->place, "the store");
    store_close(feed->cache);
    store_close(feed->options.store);
    device_close(feed->options.device);
    free(feed->batches);
    index_set_release(&feed->done);
    free(feed->url);
    free(feed->stream);
    free(feed->token);
    free(feed->authority);
    free(feed);
}

static void closing_init(struct closing *closing, struct feed *feed)
{
    bool buckets = feed->options.bucket_window > 0; /* the puller asks the store for lengths */
    *closing = (struct closing){.feed = feed,
                                .place = buckets ? "the sampler or the store" : "the sampler"};
    sem_init(&closing->ended, 0, 0);
    sem_init(&closing->may_free, 0, 0);
}

static void free_closing(void *context)
{
    struct closing *closing = context;
    sem_destroy(&closing->ended);
    sem_destroy(&closing->may_free);
    free(closing);
}

static enum error prepare_to_close(struct feed *feed)
{
    struct closing *closing = array_new(1, sizeof(*closing), "closing a feed");
    if (!closing)
        return ERROR_MEMORY;
    closing_init(closing, feed);
    enum error error = errand_new(free_all, free_closing, closing, &feed->errand);
    if (error)
        free_closing(closing);
    else
        feed->closing = closing;
    return error;
}

/* ---- a feed ------------------------------------------------------------- */

static enum error feed_init(struct feed *feed, const struct feed_options *options)
{
    feed->opened_ns = clock_now_ns();
    feed->options = *options;
    store_keep(options->store);
    device_keep(options->device);
    enum error error = feed_options_complete(&feed->options);
    if (!error)
        error = prepare_to_close(feed);
    if (!error)
        error = copy_text(options->sampler_url, &feed->url);
    if (!error)
        error = copy_text(options->stream, &feed->stream);
    if (!error)
        error = copy_text(options->token, &feed->token);
    if (!error)
        error = copy_text(options->authority, &feed->authority);
    feed->options.sampler_url = feed->url;
    feed->options.stream = feed->stream;
    feed->credentials = (struct http_credentials){feed->token, feed->authority};
    if (!error && options->done)
        error = index_set_copy(&feed->done, options->done);
    feed->options.done = NULL;
    if (options->expected) {
        feed->expected = *options->expected;
        feed->options.expected = &feed->expected;
    }
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

void feed_cancel(struct feed *feed)
{
    if (feed->queue)
        pull_queue_stop(feed->queue);
    if (feed->ring)
        ring_stop(feed->ring);
    puller_cancel(feed->puller);
    fetchers_cancel(feed->fetchers);
}

/* Once: starts the thread that ends and frees the feed. */
static bool begin_to_end(struct feed *feed)
{
    if (feed->is_ending)
        return true;
    feed_cancel(feed);
    feed->is_ending = feed->errand && !errand_start(feed->errand, "tombola-close");
    return feed->is_ending;
}

bool feed_owes(const struct feed *feed)
{
    bool owes = false;
    for (size_t i = 0; i < feed->options.slots && !owes; i++) {
        const struct slot *slot = ring_slot(feed->ring, i);
        owes = !slot->settled && ring_is_busy(feed->ring, slot);
    }
    return owes;
}

void feed_end(struct feed *feed)
{
    struct timespec until = clock_timespec(clock_deadline_ns(feed->options.close_ms));
    if (!begin_to_end(feed))
        return;
    while (sem_clockwait(&feed->closing->ended, CLOCK_MONOTONIC, &until) && errno == EINTR)
        ;
}

enum error feed_await_acks(struct feed *feed)
{
    int64_t deadline_ns = clock_deadline_ns(feed->options.patience_ms);
    size_t unacked;
    while ((unacked = atomic_load(&feed->closing->unacked)) > 0) {
        bool stops = stop_requested();
        if (stops || clock_left_ms(deadline_ns) == 0)
            return error_set(stops ? ERROR_CANCELLED : ERROR_TIMEOUT,
                             "the sampler at %s did not ack the last %zu %s that %s put back, and "
                             "will redeliver %s",
                             feed->url, unacked, text_plural(unacked, "batch", "batches"),
                             text_plural(unacked, "was", "were"),
                             text_plural(unacked, "it", "them"));
        lease_keeper_await_acks(feed->leases, ACK_SLICE_MS);
    }
    return OK;
}

static void warn_of_what_hangs(const char *place, size_t unacked)
{
    char acks[160] = "";
    if (unacked > 0)
        snprintf(acks, sizeof(acks),
                 "; %zu of the batches that were trained %s not acked yet, and will be trained "
                 "again if the program ends first",
                 unacked, text_plural(unacked, "is", "are"));
    log_warning("a feed is closed while a thread of it hangs in %s: the thread is left behind with "
                "the memory it uses, until it returns%s",
                place, acks);
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    struct errand *errand = feed->errand;
    struct closing *closing = feed->closing;
    int64_t close_ms = feed->options.close_ms;
    const char *place = NULL;
    struct error_report before; /* perhaps why it is closed; closing may overwrite it */
    error_report_take(OK, &before);
    if (!begin_to_end(feed)) {
        struct closing alone;
        closing_init(&alone, feed); /* without a thread, closing may hang */
        sem_post(&alone.may_free);
        free_all(&alone);
    } else {
        sem_post(&closing->may_free);
        while (!place && !errand_wait(errand, clock_deadline_ns(close_ms)))
            place = atomic_load(&closing->place);
    }
    if (place)
        warn_of_what_hangs(place, atomic_load(&closing->unacked));
    errand_leave(errand);
    (void)error_restore(&before);
}

/* ---- batches ------------------------------------------------------------ */

static void count(_Atomic int64_t *counter, int64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static enum error take_next(struct feed *feed, int64_t deadline_ns, struct slot **ret_slot)
{
    int64_t started_ns = clock_now_ns();
    enum error error;
    while (!(error = ring_take_copied(feed->ring, feed->next, deadline_ns, ret_slot)) &&
           (*ret_slot)->state == SLOT_COPYING)
        copier_copy(feed->copier, *ret_slot);
    if (error)
        return error;
    int64_t now_ns = clock_now_ns();
    if (feed->next > 0)
        count(&feed->wait_ns, now_ns - started_ns);
    else
        count(&feed->first_ns, now_ns - feed->opened_ns);
    feed->next++;
    puller_handed(feed->puller, feed->next);
    return OK;
}

typedef void settle_lease(struct lease_keeper *keeper, int64_t seq);

/* `settle`: what becomes of its lease; NULL: that is settled, or there is none. */
static enum error put_back(struct feed *feed, struct device_queue *queue, struct slot *slot,
                           settle_lease *settle)
{
    int64_t seq = slot->seq;
    enum error error = device_event_record(feed->options.device, slot->released, queue);
    if (error)
        return error;
    ring_put(feed->ring, slot);
    if (settle)
        settle(feed->leases, seq);
    return OK;
}

/* The next batch that is still ours: one that others get is put back unseen. */
static enum error take_held(struct feed *feed, struct device_queue *queue, int64_t timeout_ms,
                            struct slot **ret_slot)
{
    int64_t deadline_ns = clock_deadline_ns(timeout_ms);
    for (;;) {
        enum error error = take_next(feed, deadline_ns, ret_slot);
        if (!error)
            error = device_queue_await(feed->options.device, queue, (*ret_slot)->copied);
        if (error || !feed->leases || lease_keeper_hands_out(feed->leases, (*ret_slot)->seq))
            return error;
        error = put_back(feed, queue, *ret_slot, lease_keeper_drop);
        if (error)
            return error;
    }
}

static const void *labels_on_device(const struct slot *slot)
{
    return slot->one_hot ? slot->one_hot : slot->device_labels;
}

/* Size of a feature as delivered. */
static size_t unit_bytes(const struct feed *feed)
{
    return element_bytes(expands(feed) ? ELEMENT_F32 : store_info(feed->options.store)->element);
}

enum error feed_next_within(struct feed *feed, struct device_queue *queue, int64_t timeout_ms,
                            const struct feed_batch **ret_batch)
{
    struct slot *slot;
    enum error error = take_held(feed, queue, timeout_ms, &slot);
    if (error)
        return error;
    struct feed_batch *batch = &feed->batches[slot->number];
    *batch = (struct feed_batch){.rows = slot->rows,
                                 .ids = slot->ids,
                                 .labels = slot->labels,
                                 .features = slot->device,
                                 .epoch = slot->epoch,
                                 .first = slot->first,
                                 .index = slot->index,
                                 .seq = slot->seq,
                                 .attempt = slot->attempt,
                                 .device_labels = labels_on_device(slot),
                                 .weights = slot->weights,
                                 .groups = slot->groups,
                                 .device_weights = slot->device_weights,
                                 .device_groups = slot->device_groups,
                                 .width = slot->width,
                                 .lengths = slot->lengths,
                                 .device_lengths = slot->device_lengths,
                                 .round_epoch =
                                     puller_round_epoch(feed->puller, slot->index, slot->epoch)};
    slot->settled = false;
    count(&feed->batch_count, 1);
    count(&feed->byte_count, (int64_t)(batch->rows * batch->width * unit_bytes(feed)));
    count(&feed->row_count, (int64_t)slot->rows);
    count(&feed->bad_row_count, (int64_t)slot->bad_rows);
    *ret_batch = batch;
    return OK;
}

bool feed_is_not_yet(enum error error)
{
    const char *kind = error == ERROR_TIMEOUT ? error_kind() : NULL;
    return kind && strcmp(kind, RING_NOT_YET) == 0;
}

void feed_interrupt(struct feed *feed)
{
    ring_interrupt(feed->ring);
}

enum error feed_grant(struct feed *feed, int64_t first, int64_t count)
{
    return puller_grant(feed->puller, (struct grant){first, count});
}

const struct sampler_stream *feed_stream(const struct feed *feed)
{
    return puller_stream(feed->puller);
}

int64_t feed_end_index(const struct feed *feed)
{
    return puller_next_index(feed->puller);
}

/* The batch's slot; NULL (ERROR_USAGE) if it is not with the caller: `batch` comes from a program,
 * right or wrong. */
static struct slot *find_slot(const struct feed *feed, const struct feed_batch *batch)
{
    uintptr_t offset = (uintptr_t)batch - (uintptr_t)feed->batches;
    size_t number = offset / sizeof(*batch);
    if (!batch || number >= feed->options.slots || offset % sizeof(*batch) != 0) {
        error_set(ERROR_USAGE, "the batch is not one that this feed's next returned");
        return NULL;
    }
    struct slot *slot = ring_slot(feed->ring, number);
    if (ring_is_busy(feed->ring, slot))
        return slot;
    error_set(ERROR_USAGE, "the batch is not out; each is put back once");
    return NULL;
}

static enum error give_back(struct feed *feed, struct device_queue *queue,
                            const struct feed_batch *batch, settle_lease *settle)
{
    struct slot *slot = find_slot(feed, batch);
    if (!slot)
        return ERROR_USAGE;
    return put_back(feed, queue, slot, slot->settled || !feed->leases ? NULL : settle);
}

enum error feed_settle(struct feed *feed, const struct feed_batch *batch, bool trained)
{
    struct slot *slot = find_slot(feed, batch);
    if (!slot)
        return ERROR_USAGE;
    if (feed->leases && !slot->settled)
        (trained ? lease_keeper_done : lease_keeper_drop)(feed->leases, slot->seq);
    slot->settled = true;
    return OK;
}

bool feed_is_settled(const struct feed *feed, const struct feed_batch *batch)
{
    const struct slot *slot = find_slot(feed, batch);
    return slot && slot->settled;
}

enum error feed_put(struct feed *feed, struct device_queue *queue, const struct feed_batch *batch)
{
    return give_back(feed, queue, batch, lease_keeper_done);
}

enum error feed_drop(struct feed *feed, struct device_queue *queue, const struct feed_batch *batch)
{
    return give_back(feed, queue, batch, lease_keeper_drop);
}

enum error feed_number(struct feed *feed, const struct feed_batch *batch, int64_t *ret_number)
{
    const struct slot *slot = find_slot(feed, batch);
    if (!slot)
        return ERROR_USAGE;
    *ret_number = slot->sequence;
    return OK;
}

enum label_element feed_labels(const struct feed *feed)
{
    return feed->options.labels;
}

size_t feed_classes(const struct feed *feed)
{
    return feed->options.classes;
}

const char *const *feed_group_texts(const struct feed *feed, size_t *ret_count)
{
    return row_attributes_group_texts(feed->attributes, ret_count);
}

size_t feed_slots(const struct feed *feed)
{
    return ring_targets(feed->ring);
}

void feed_get_stats(const struct feed *feed, struct feed_stats *ret_stats)
{
    *ret_stats = (struct feed_stats){
        .batches = atomic_load_explicit(&feed->batch_count, memory_order_relaxed),
        .rows = atomic_load_explicit(&feed->row_count, memory_order_relaxed),
        .bytes = atomic_load_explicit(&feed->byte_count, memory_order_relaxed),
        .bad_rows = atomic_load_explicit(&feed->bad_row_count, memory_order_relaxed),
        .pull_ns = puller_busy_ns(feed->puller),
        .fetch_ns = fetchers_busy_ns(feed->fetchers),
        .copy_ns = copier_busy_ns(feed->copier),
        .wait_ns = atomic_load_explicit(&feed->wait_ns, memory_order_relaxed),
        .first_ns = atomic_load_explicit(&feed->first_ns, memory_order_relaxed),
        .lost = lease_keeper_lost(feed->leases),
        .resident_rows = resident_set_count(feed->resident),
        .copied_rows = resident_set_copied(feed->resident)};
}
