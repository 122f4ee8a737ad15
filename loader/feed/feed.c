/* SPDX-License-Identifier: MIT */
#include "loader/feed/feed.h"

#include <string.h>

#include "common/clock.h"
#include "loader/feed/feed_private.h"
#include "loader/feed/pull_plan.h"
#include "loader/feed/rank_walk.h"

enum bad_rows bad_rows_by_name(const char *name)
{
    if (strcmp(name, "skip") == 0)
        return BAD_ROWS_SKIP;
    return strcmp(name, "replace") == 0 ? BAD_ROWS_REPLACE : BAD_ROWS_FAIL;
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

/* `settle`: what becomes of its lease; NULL: that is settled, or there is none. If the device
 * failed with `error`, nobody can say when the slot may be written again: the ring ends, so that
 * nobody does. */
static enum error release_slot(struct feed *feed, struct slot *slot, settle_lease *settle,
                               enum error error)
{
    struct error_report report;
    int64_t seq = slot->seq;
    if (error) {
        error_report_take(error, &report);
        ring_end(feed->ring, slot->sequence, &report);
    }
    ring_put(feed->ring, slot);
    if (settle)
        (error ? lease_keeper_drop : settle)(feed->leases, seq);
    return error ? error_restore(&report) : OK;
}

static enum error put_back(struct feed *feed, struct device_queue *queue, struct slot *slot,
                           settle_lease *settle)
{
    return release_slot(feed, slot, settle,
                        device_event_record(feed->options.device, slot->released, queue));
}

/* The next batch that is still ours: one that others get is put back unseen. */
static enum error take_held(struct feed *feed, struct device_queue *queue, int64_t timeout_ms,
                            struct slot **ret_slot)
{
    int64_t deadline_ns = clock_deadline_ns(timeout_ms);
    for (;;) {
        enum error error = take_next(feed, deadline_ns, ret_slot);
        if (error)
            return error;
        error = device_queue_await(feed->options.device, queue, (*ret_slot)->copied);
        if (error)
            return release_slot(feed, *ret_slot, feed->leases ? lease_keeper_drop : NULL, error);
        if (!feed->leases || lease_keeper_hands_out(feed->leases, (*ret_slot)->seq))
            return OK;
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
    return element_bytes(feed_expands(feed) ? ELEMENT_F32
                                            : store_info(feed->options.store)->element);
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

int64_t feed_left(const struct feed *feed, int64_t epoch)
{
    const struct feed_options *options = &feed->options;
    const struct sampler_stream *stream = feed_stream(feed);
    struct rank_walk walk = {.first = options->first_index,
                             .rank = options->rank,
                             .world = options->world,
                             .part = options->part,
                             .parts = options->parts,
                             .pad = options->pad,
                             .done = &feed->done};
    struct pull_plan plan;
    pull_plan_init(&plan, stream, options->batch_rows, 0);
    int64_t batches = pull_plan_batches(&plan, stream->epochs), end = INT64_MAX;
    if (epoch >= 0)
        end = epoch == 0 ? 0 : pull_plan_batches(&plan, epoch);
    if (batches < 0 || end < 0 || rank_walk_begin(&walk, batches))
        return -1;
    int64_t left = rank_walk_steps_before(&walk, end);
    if (options->batches >= 0 && left > options->batches)
        left = options->batches;
    if (left == INT64_MAX)
        return left;
    return left > feed->next ? left - feed->next : 0;
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

const enum row_status *feed_row_status(const struct feed *feed, const struct feed_batch *batch)
{
    const struct slot *slot = find_slot(feed, batch);
    bool replaced = feed->options.bad_rows == BAD_ROWS_REPLACE && slot && slot->bad_rows > 0;
    return replaced ? slot->status : NULL;
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
