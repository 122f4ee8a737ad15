/* SPDX-License-Identifier: MIT */
/*
 * A feed: batches in order, ready on the device ahead of training.
 *
 *   puller threads       ask the sampler for batches of ids, a few ahead
 *   fetcher threads      fetch those rows from the store into the slots of a ring (pinned memory)
 *   copier thread        copies a slot to the device and scales u8 to f32 there
 *   the caller           feed_next() ... trains ... feed_put()
 *
 * All memory is allocated in feed_open(); the steady state allocates nothing. Batches come in the
 * sampler's order, whatever the threads do, so a run can be repeated bit for bit. Every wait has a
 * deadline and ends soon after feed_close() or a signal to stop. feed_next() returns a failure of
 * any stage with its message, after the batches before it. One caller thread.
 *
 * Four ways to get batches from the sampler:
 *   FEED_LEASE  /batch?size=B&worker=W&seq=S  leases a batch, which feed_put() acks and feed_drop()
 *                                        does not; unacked batches, also those of a process that
 *                                        ends or fails, are redelivered
 *   FEED_DRAW   /batch?size=B            moves the stream; several pullers share it. Draws
 *                                        that were not taken when the feed is closed are lost
 *   FEED_INDEX  /batch?size=B&index=K    pure: K is counted here from `first_index`, nothing moves,
 *                                        and a checkpoint that holds K says exactly what was
 *                                        trained; several ranks take turns
 *   FEED_GRANTED                         the same for the batches given to feed_grant(), in that
 *                                        order
 *
 * Dimensions: B rows per batch, F features, K slots.
 */
#ifndef LOADER_FEED_FEED_H
#define LOADER_FEED_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/feed/feature_moments.h"
#include "loader/feed/label_element.h"
#include "loader/store/store.h"

struct index_set;
struct sampler_stream;

enum feed_pull { FEED_LEASE, FEED_INDEX, FEED_DRAW, FEED_GRANTED };

enum bad_rows {
    BAD_ROWS_FAIL,   /* feed_next() fails, naming file, row and column: at once if the store has
                      * fewer rows than the stream has units, or as many and knows of a bad one */
    BAD_ROWS_SKIP,   /* omit the row; the batch is shorter; counted */
    BAD_ROWS_REPLACE /* zeros with the row's label 0; counted */
};

/* "fail", "skip" or "replace". */
enum bad_rows bad_rows_by_name(const char *name);
/* Follows the message about a row that BAD_ROWS_FAIL fails on. */
#define BAD_ROWS_ADVICE " (--bad-rows skip goes on without such rows)"

/* All rows, on a device with its own memory, if they fit in half of what is free there; else
 * none. */
#define FEED_RESIDENT_AUTO UINT64_MAX

struct feed_options {
    const char *sampler_url; /* copied */
    const char *stream;      /* NULL: "default"; copied */
    const char *token;       /* for the sampler, struct http_credentials; copied */
    const char *authority;   /* the same */
    struct store *store;     /* kept until feed_close(), or until a call that hangs there returns */
    struct device *device;   /* the same */
    enum feed_pull pull;
    int64_t first_index; /* FEED_INDEX: the first batch of all ranks together */
    int64_t rank, world; /* FEED_INDEX, rank_walk.h; world 0: 1 */
    int64_t part, parts; /* the same; parts 0: 1 */
    bool pad;
    const struct index_set *done; /* FEED_INDEX: steps to leave out; copied; NULL: none */
    int64_t batches;              /* end after this many; < 0: at the end of the stream */
    size_t batch_rows;            /* B, 1 to 1,000,000 */
    size_t draws_ahead; /* FEED_DRAW, FEED_LEASE: requests in flight, 1 to 64; 0: 4 for draws, 2 for
                         * leases */
    const char *worker; /* FEED_LEASE: lease_keeper.h; copied */
    size_t
        slots; /* K, 2 to 4096; 0: 8 for draws, 16 for leases, by index 8 to 64 (about 32 MiB), for
                * large batches 3 to 8 (256 MiB, unless 3 need more) */
    size_t targets;  /* how many of them may hold floats converted from bytes on a CPU, and be out,
                      * at a time; 0: `slots`, or, if that is 0 too, what fits in the processor's
                      * cache, at least 4 */
    size_t fetchers; /* threads, 1 to 64; 0: 1 */
    size_t cache_bytes;   /* memory for caching rows, all or as many as fit: row_cache.h; 0: none */
    size_t reserve_bytes; /* memory to leave free on the machine */
    enum bad_rows bad_rows;
    bool expand; /* true: features arrive as f32 (u8 times `scale`); false: as stored */
    float scale; /* 1/255 for u8 pixels; applied to u8 only */
    struct feature_moments moments; /* of features, which must then be f32; read by feed_open()
                                     * alone */
    enum label_element labels;      /* of the batches' device_labels */
    size_t classes;                 /* of one-hot labels; 0: from the store's labels (one_hot.h) */
    enum weight_element weights;    /* of the batches' weights: row_attributes.h */
    bool groups;                    /* batches have groups */
    int64_t patience_ms;            /* give up on a silent sampler after this long; < 0: never */
    /* The order that the stream must have from the first batch on, else ERROR_CONFLICT; copied;
     * NULL: any, and for FEED_DRAW. */
    const struct sampler_stream *expected;
    uint64_t resident_bytes; /* device memory for rows that stay there; 0: none */
    int64_t close_ms;        /* feed_close() abandons what hangs for longer; 0: 500 */
    /* FEED_INDEX, for a store whose rows differ in length: sorts windows of this many batches by
     * length and cuts them into batches of similar length, in shuffled order (pull_bucket.h). Batch
     * K is then any of its window, `first` that of the window. 0: none. */
    size_t bucket_window;
    bool trust_labels;   /* do not compare the store's labels with the sampler's (label_check.h) */
    bool wants_integers; /* warn if floats seem to be rounded integers */
};

struct feed_batch {
    size_t rows;          /* 0 only with BAD_ROWS_SKIP */
    const int64_t *ids;   /* [rows], host */
    const double *labels; /* [rows], host: as reader_fetch() returns them */
    const void *features; /* [rows, width] in device memory: f32 when `expand`, else info.element */
    int64_t epoch, first; /* as the sampler sent them; `first` is the batch's first unit's */
    int64_t index;        /* FEED_INDEX, FEED_GRANTED: the sampler's; else counted from 0 */
    int64_t seq;          /* FEED_LEASE: the lease's */
    int64_t attempt;      /* FEED_LEASE: delivery count, 1 the first time; FEED_DRAW: the same if it
                           * was leased before; otherwise 0 */
    const void *device_labels; /* [rows] or [rows, feed_classes()] of feed_labels(), in device
                                * memory; NULL: LABELS_HOST */
    const void *weights;       /* [rows] of the options' element, host; NULL: WEIGHTS_NONE */
    const int64_t *groups;     /* [rows], host: row_attributes.h; NULL: not requested */
    const void *device_weights, *device_groups; /* the same in device memory */
    size_t width; /* features per row: F, or, if rows differ in length (store.h), the most of the
                   * batch, or what longest= allows; shorter ones are padded with zeros */
    const int64_t *lengths;        /* [rows], host: features of each row; NULL: all rows are
                                    * alike */
    const int64_t *device_lengths; /* the same in device memory */
    int64_t round_epoch; /* FEED_INDEX: epoch of the first batch of its round (puller.h); otherwise
                          * epoch */
};

struct feed_stats {
    int64_t batches, rows, bytes;       /* delivered; bytes of features */
    int64_t bad_rows;                   /* skipped or replaced */
    int64_t pull_ns, fetch_ns, copy_ns; /* busy time of the stages, summed over threads */
    int64_t wait_ns;       /* the caller's time in feed_next(), without the first batch */
    int64_t first_ns;      /* open to first batch */
    int64_t lost;          /* leases lost before the ack: another worker may also get the batch */
    int64_t resident_rows; /* now in device memory */
    int64_t copied_rows;   /* of rows that may stay there: fetched and copied so far */
};

struct feed;

/* Does not wait for the sampler, whose errors feed_next() returns, nor for the cache. If weights or
 * groups are requested, it reads the keys of all rows. */
enum error feed_open(const struct feed_options *options, struct feed **ret_feed) MUST_CHECK;
/* First part of closing: tells all threads to stop, without waiting. Batches that are out stay
 * valid. */
void feed_cancel(struct feed *feed);
/* Second part, for when nothing is owed and batches are still out: ends all threads, acks what was
 * trained, and releases what was not taken. After `close_ms` that continues without the caller. */
void feed_end(struct feed *feed);
/* Is a batch out that was not settled? */
bool feed_owes(const struct feed *feed);
/* FEED_LEASE: waits until the batches that were put back are acked; ERROR_TIMEOUT: some are not
 * within the feed's patience, and will be redelivered; ERROR_CANCELLED: a signal came. */
enum error feed_await_acks(struct feed *feed) MUST_CHECK;
/* Legal at any time; invalidates batches that are out. Stops the threads (cancels a pull in
 * progress, and waits for the store) and frees everything. A system call that hangs for longer than
 * `close_ms` is abandoned, with a warning; the memory it uses, including store and device, is freed
 * when it returns. NULL is legal. */
void feed_close(struct feed *feed);

/* The next batch, the caller's until feed_put(), within `timeout_ms` (< 0: no limit), else
 * ERROR_TIMEOUT; a later call returns it. Makes `queue` (the trainer's; may be NULL on the CPU)
 * wait for the copy, not the thread. ERROR_END after the last one, ERROR_CANCELLED if the program
 * should stop, else the failure of any stage; repeated calls return the same. One or two batches
 * may be out at a time (ERROR_USAGE if all K slots are). With BAD_ROWS_SKIP a batch may have no
 * rows left. */
enum error feed_next_within(struct feed *feed, struct device_queue *queue, int64_t timeout_ms,
                            const struct feed_batch **ret_batch) MUST_CHECK;
static inline enum error feed_next(struct feed *feed, struct device_queue *queue,
                                   const struct feed_batch **ret_batch)
{
    return feed_next_within(feed, queue, -1, ret_batch);
}
/* Was this thread's error of feed_next_within() just the timeout? Any other ERROR_TIMEOUT is a
 * failure of the sampler or the store. */
bool feed_is_not_yet(enum error error);
/* Any thread: ends a waiting feed_next(), or else the next one that would wait, with
 * ERROR_CANCELLED; the one after it continues normally. */
void feed_interrupt(struct feed *feed);
/* FEED_GRANTED: appends `count` batches (< 0: no end) from number `first` on to those granted
 * before. Any thread. ERROR_USAGE: more than 4096 separate runs are pending. */
enum error feed_grant(struct feed *feed, int64_t first, int64_t count) MUST_CHECK;
/* FEED_INDEX, FEED_GRANTED: the stream's description, from the first batch on; NULL before. Valid
 * until feed_close(). */
const struct sampler_stream *feed_stream(const struct feed *feed);
/* FEED_INDEX, from the first batch on: how many more feed_next() returns before the first whose
 * round_epoch is `epoch` or later (< 0: before ERROR_END); INT64_MAX: no end; -1: only the sampler
 * knows. The caller's thread. */
int64_t feed_left(const struct feed *feed, int64_t epoch);
/* FEED_INDEX, FEED_GRANTED, after ERROR_END: the first batch that the stream does not have, or that
 * was not requested. */
int64_t feed_end_index(const struct feed *feed);
/* Returns a batch; its slot is reused once all work now in `queue` is done. ERROR_USAGE: not a
 * batch of this feed, or not out. If the device fails, the batch is back as if dropped, and
 * feed_next() returns the failure. */
enum error feed_put(struct feed *feed, struct device_queue *queue,
                    const struct feed_batch *batch) MUST_CHECK;

/* The same for a batch that was not trained: FEED_LEASE does not ack it, and when its lease expires
 * it is redelivered. */
enum error feed_drop(struct feed *feed, struct device_queue *queue,
                     const struct feed_batch *batch) MUST_CHECK;

/* Settles now whether a batch that stays out was trained: feed_put() or feed_drop() then only
 * return the slot. The first call counts. ERROR_USAGE as feed_put(). */
enum error feed_settle(struct feed *feed, const struct feed_batch *batch, bool trained) MUST_CHECK;
bool feed_is_settled(const struct feed *feed, const struct feed_batch *batch);

/* The batch's number: feed_next() returns numbers 0, 1, 2, ... ERROR_USAGE as feed_put(). */
enum error feed_number(struct feed *feed, const struct feed_batch *batch,
                       int64_t *ret_number) MUST_CHECK;

/* With BAD_ROWS_REPLACE, for a batch that is out: the rows that are not ROW_OK were replaced by
 * zeros, [rows], host, valid as long as the batch; NULL: none was. */
const enum row_status *feed_row_status(const struct feed *feed, const struct feed_batch *batch);

/* The type of device_labels. */
enum label_element feed_labels(const struct feed *feed);
/* Columns of one-hot labels; 0: not one-hot. */
size_t feed_classes(const struct feed *feed);
/* If groups are texts: the list that their numbers refer to, borrowed; else NULL. */
const char *const *feed_group_texts(const struct feed *feed, size_t *ret_count);
/* How many batches can be out at a time: K, or the targets. */
size_t feed_slots(const struct feed *feed);
/* Cheap; any thread, at any time. */
void feed_get_stats(const struct feed *feed, struct feed_stats *ret_stats);

#endif
