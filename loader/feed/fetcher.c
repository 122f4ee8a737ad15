/* SPDX-License-Identifier: MIT */
#include "loader/feed/fetcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/thread.h"
#include "loader/store/feature_range.h"

#define JUDGED_ROWS 100

struct fetcher {
    struct fetchers *all;
    struct reader *reader;
    uint32_t *numbers;            /* [B]: label numbers from the sampler */
    struct resident_rows missing; /* used if rows stay on the device */
    struct feature_range range;   /* of the first rows fetched */
    pthread_t thread;
    bool started;
};

struct fetchers {
    struct fetcher_options options;
    struct pull_queue *queue;
    struct ring *ring;
    size_t row_bytes;
    const struct store_info *info; /* of the store */
    struct fetcher *threads;       /* [options.threads] */
    _Atomic int64_t busy_ns;
    atomic_bool bad_row_warned, rounded_warned, cancelled;
};

/* ---- bad rows ----------------------------------------------------------- */

static size_t count_bad(const enum row_status *status, size_t rows)
{
    size_t bad = 0;
    for (size_t i = 0; i < rows; i++)
        bad += status[i] != ROW_OK;
    return bad;
}

static void move_attributes(const struct fetcher *fetcher, struct slot *slot, size_t from,
                            size_t to)
{
    size_t bytes = weight_element_bytes(fetcher->all->options.weights);
    char *weights = slot->weights;
    if (weights)
        memcpy(weights + to * bytes, weights + from * bytes, bytes);
    if (slot->groups)
        slot->groups[to] = slot->groups[from];
    if (slot->lengths)
        slot->lengths[to] = slot->lengths[from];
}

/* Moves the good rows together, in order; returns how many there are. */
static size_t squeeze(const struct fetcher *fetcher, struct slot *slot)
{
    size_t row_bytes = slot->width * element_bytes(fetcher->all->info->element);
    char *features = slot->host;
    size_t kept = 0;
    for (size_t i = 0; i < slot->rows; i++) {
        if (slot->status[i] != ROW_OK)
            continue;
        if (kept != i && fetcher->all->options.resident) {
            slot->places[kept] = slot->places[i];
        } else if (kept != i) {
            memcpy(features + kept * row_bytes, features + i * row_bytes, row_bytes);
        }
        if (kept != i) {
            slot->ids[kept] = slot->ids[i];
            slot->labels[kept] = slot->labels[i];
            move_attributes(fetcher, slot, i, kept);
        }
        kept++;
    }
    return kept;
}

static enum error refuse_row(const struct slot *slot)
{
    size_t at = 0;
    while (slot->status[at] == ROW_OK)
        at++;
    /* The store has written the message. */
    return error_set(slot->status[at] == ROW_MISSING ? ERROR_NOT_FOUND : ERROR_INPUT,
                     "%s" BAD_ROWS_ADVICE, error_message());
}

static enum error handle_bad_rows(struct fetcher *fetcher, struct slot *slot)
{
    struct fetchers *all = fetcher->all;
    slot->bad_rows = count_bad(slot->status, slot->rows);
    if (slot->bad_rows == 0)
        return OK;
    if (all->options.bad_rows == BAD_ROWS_FAIL)
        return refuse_row(slot);
    bool skip = all->options.bad_rows == BAD_ROWS_SKIP;
    if (!atomic_exchange(&all->bad_row_warned, true))
        log_warning("%s; the row is %s (further ones are only counted)", error_message(),
                    skip ? "skipped" : "replaced by zeros");
    if (skip)
        slot->rows = squeeze(fetcher, slot);
    return OK;
}

/* ---- numbers that floats round ------------------------------------------ */

static void judge_values(struct fetcher *fetcher)
{
    if (feature_range_is_rounded(&fetcher->range) &&
        !atomic_exchange(&fetcher->all->rounded_warned, true))
        log_warning("%s: features are " FEATURE_RANGE_ROUNDED, fetcher->all->info->uri);
}

/* Judges only with enough rows to exclude chance. */
static void look_at_values(struct fetcher *fetcher, const struct slot *slot)
{
    const struct fetcher_options *options = &fetcher->all->options;
    struct feature_range *range = &fetcher->range;
    size_t rows = options->resident ? slot->new_rows + slot->own_rows : slot->rows;
    if (!options->wants_integers || fetcher->all->info->element != ELEMENT_F32 ||
        range->rows >= JUDGED_ROWS)
        return;
    feature_range_add_floats(range, slot->host, rows * slot->width, rows);
    if (range->rows >= JUDGED_ROWS)
        judge_values(fetcher);
}

/* ---- one batch ---------------------------------------------------------- */

/* Rows that are not yet on the device. */
static enum error fetch_missing(struct fetcher *fetcher, int64_t sequence, struct slot *slot)
{
    struct resident_set *set = fetcher->all->options.resident;
    struct resident_rows *missing = &fetcher->missing;
    enum error error = OK;
    resident_set_find(set, slot->ids, slot->rows, sequence, slot->number, slot->places,
                      slot->labels, slot->status, missing);
    if (missing->count > 0)
        error = reader_fetch(fetcher->reader, missing->ids, missing->count, slot->host,
                             fetcher->all->row_bytes, missing->labels, missing->status);
    if (error)
        return error;
    resident_set_fetched(set, missing, slot->places, slot->rows, slot->labels, slot->status);
    slot->memory = (struct store_memory){resident_set_memory(set), fetcher->all->row_bytes};
    slot->new_rows = missing->kept;
    slot->own_rows = missing->count - missing->kept;
    slot->new_place = missing->first;
    return OK;
}

/* Rows in the store's memory, where they stay. */
static bool find_rows(struct fetcher *fetcher, struct slot *slot)
{
    slot->memory.rows = NULL;
    if (!fetcher->all->options.finds || !reader_find(fetcher->reader, slot->ids, slot->rows,
                                                     slot->places, slot->labels, &slot->memory))
        return false;
    for (size_t i = 0; i < slot->rows; i++)
        slot->status[i] = ROW_OK;
    return true;
}

static enum error fetch_rows(struct fetcher *fetcher, int64_t sequence, struct slot *slot)
{
    if (fetcher->all->options.resident)
        return fetch_missing(fetcher, sequence, slot);
    if (find_rows(fetcher, slot))
        return OK;
    if (slot->lengths)
        return reader_fetch_packed(fetcher->reader, slot->ids, slot->rows, slot->host, slot->labels,
                                   slot->status, slot->lengths, &slot->width);
    return reader_fetch(fetcher->reader, slot->ids, slot->rows, slot->host, fetcher->all->row_bytes,
                        slot->labels, slot->status);
}

static void take_attributes(const struct fetcher *fetcher, const struct slot *slot)
{
    const struct fetcher_options *options = &fetcher->all->options;
    if (slot->weights)
        row_attributes_weights(options->attributes, slot->ids, slot->status, slot->rows,
                               options->weights == WEIGHTS_F32, slot->weights);
    if (slot->groups)
        row_attributes_groups(options->attributes, slot->ids, slot->status, slot->rows,
                              slot->groups);
}

static enum error fetch_batch(struct fetcher *fetcher, const struct pull *pull, struct slot *slot)
{
    struct fetchers *all = fetcher->all;
    slot->rows = pull->rows;
    slot->epoch = pull->epoch;
    slot->first = pull->first;
    slot->index = pull->index;
    slot->seq = pull->seq;
    slot->attempt = pull->attempt;
    slot->width = all->info->features;
    int64_t started_ns = clock_now_ns();
    enum error error = fetch_rows(fetcher, pull->sequence, slot);
    if (!error && all->options.labels)
        error = label_check_rows(all->options.labels, slot->ids, fetcher->numbers, slot->labels,
                                 slot->status, slot->rows);
    if (!error) {
        take_attributes(fetcher, slot);
        error = handle_bad_rows(fetcher, slot);
    }
    if (!error)
        look_at_values(fetcher, slot);
    atomic_fetch_add_explicit(&all->busy_ns, clock_now_ns() - started_ns, memory_order_relaxed);
    return error;
}

/* The copier's queue reads the slot's features, the caller's may read its ids and labels: waits
 * until both have finished with the slot's last batch before it is overwritten. */
static enum error wait_for_readers(const struct fetchers *all, const struct slot *slot)
{
    enum error error = device_event_wait(all->options.device, slot->copied);
    return error ? error : device_event_wait(all->options.device, slot->released);
}

static void *run(void *context)
{
    struct fetcher *fetcher = context;
    struct fetchers *all = fetcher->all;
    struct slot *slot;
    struct pull pull;
    stop_follow(&all->cancelled);
    while (!ring_take_free(all->ring, &slot)) {
        enum error error = wait_for_readers(all, slot);
        if (pull_queue_take(all->queue, &pull, slot->ids, fetcher->numbers))
            break;
        if (!error)
            error = fetch_batch(fetcher, &pull, slot);
        if (error) {
            struct error_report report;
            error_report_take(error, &report);
            ring_end(all->ring, pull.sequence, &report);
            pull_queue_stop(all->queue); /* all earlier batches are already taken */
            break;
        }
        ring_filled(all->ring, slot, pull.sequence);
    }
    if (fetcher->range.rows < JUDGED_ROWS)
        judge_values(fetcher);
    return NULL; /* its last slot may stay FILLING: nothing more is delivered */
}

/* ---- life cycle --------------------------------------------------------- */

static enum error start_fetcher(struct fetchers *fetchers, struct fetcher *fetcher)
{
    fetcher->all = fetchers;
    fetcher->numbers =
        array_new(fetchers->options.batch_rows, sizeof(*fetcher->numbers), "the labels of rows");
    if (!fetcher->numbers)
        return ERROR_MEMORY;
    enum error error = OK;
    if (fetchers->options.resident)
        error = resident_rows_init(&fetcher->missing, fetchers->options.batch_rows);
    if (!error)
        error = reader_open(fetchers->options.store, &fetcher->reader);
    if (error)
        return error;
    error = thread_start("tombola-fetch", run, fetcher, &fetcher->thread);
    fetcher->started = !error;
    return error;
}

enum error fetchers_start(const struct fetcher_options *options, struct pull_queue *queue,
                          struct ring *ring, struct fetchers **ret_fetchers)
{
    struct fetchers *fetchers = array_new(1, sizeof(*fetchers), "fetchers");
    if (!fetchers)
        return ERROR_MEMORY;
    const struct store_info *info = store_info(options->store);
    fetchers->options = *options;
    fetchers->queue = queue;
    fetchers->ring = ring;
    fetchers->info = info;
    fetchers->row_bytes = info->features * element_bytes(info->element);
    fetchers->threads = array_new(options->threads, sizeof(struct fetcher), "fetchers");
    enum error error = fetchers->threads ? OK : ERROR_MEMORY;
    for (size_t i = 0; !error && i < options->threads; i++)
        error = start_fetcher(fetchers, &fetchers->threads[i]);
    if (error) {
        pull_queue_stop(queue);
        ring_stop(ring);
        fetchers_stop(fetchers);
        return error;
    }
    *ret_fetchers = fetchers;
    return OK;
}

void fetchers_cancel(struct fetchers *fetchers)
{
    if (fetchers)
        atomic_store(&fetchers->cancelled, true);
}

void fetchers_stop(struct fetchers *fetchers)
{
    if (!fetchers)
        return;
    fetchers_cancel(fetchers);
    for (size_t i = 0; fetchers->threads && i < fetchers->options.threads; i++) {
        struct fetcher *fetcher = &fetchers->threads[i];
        if (fetcher->started)
            pthread_join(fetcher->thread, NULL);
        if (fetcher->reader)
            reader_close(fetcher->reader);
        free(fetcher->numbers);
        resident_rows_release(&fetcher->missing);
    }
    free(fetchers->threads);
    free(fetchers);
}

int64_t fetchers_busy_ns(const struct fetchers *fetchers)
{
    return atomic_load_explicit(&fetchers->busy_ns, memory_order_relaxed);
}
