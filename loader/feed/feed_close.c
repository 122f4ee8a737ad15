/* SPDX-License-Identifier: MIT */
/* The end of a feed: a thread ends its stages and frees it, and is left behind if one hangs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/feed/feed_private.h"

#define ACK_SLICE_MS 100 /* between two looks for a signal */

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

enum error feed_prepare_to_close(struct feed *feed)
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

void feed_cancel(struct feed *feed)
{
    if (feed->queue)
        pull_queue_stop(feed->queue);
    if (feed->ring)
        ring_stop(feed->ring);
    puller_cancel(feed->puller);
    lease_keeper_leave(feed->leases);
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
