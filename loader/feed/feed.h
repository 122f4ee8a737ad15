/* SPDX-License-Identifier: MIT */
/*
 * A feed: batches, in order, ready on the device, ahead of the training.
 *
 *   puller threads       ask the sampler for batches of ids, a few ahead
 *   fetcher threads      fetch those rows from the store into the slots of a ring (pinned memory)
 *   copier thread        copies a slot to the device and scales u8 to f32 there
 *   the caller           feed_next() ... trains ... feed_put()
 *
 * All memory is allocated in feed_open(); the steady state allocates nothing. Batches come in the
 * order in which the sampler gave them, whatever the threads do, so a run can be repeated bit for
 * bit. Every wait has a deadline and ends soon after feed_close(), SIGINT or SIGTERM. A failure of
 * any stage reaches feed_next() with its message, behind the batches that lie before it. One caller
 * thread.
 *
 * Four ways to ask the sampler:
 *   FEED_LEASE  /batch?size=B&worker=W&seq=S  lends a batch, which feed_put() acks and feed_drop()
 *                                        does not; what is not acked, because this process ends or
 *                                        fails, is lent to somebody else
 *   FEED_DRAW   /batch?size=B            moves the stream; several pullers share it. What was drawn
 *                                        ahead and not taken when the feed is closed is gone
 *   FEED_INDEX  /batch?size=B&index=K    pure: K is counted here from `first_index`, nothing moves,
 *                                        and a checkpoint that holds K says exactly what was
 *                                        trained; several ranks take turns
 *   FEED_GRANTED                         the same, but for the batches that feed_grant() names, in
 *                                        that order
 *
 * Dimensions: B rows a batch, F features, K slots.
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
    BAD_ROWS_FAIL,   /* feed_next() fails, naming file, row and column: at once when the store has
                      * fewer rows than the stream has units, or as many and knows of a bad one */
    BAD_ROWS_SKIP,   /* the row is left out, the batch is shorter; counted */
    BAD_ROWS_REPLACE /* the row is zeros with its label 0; counted */
};

/* Behind the message about a row that BAD_ROWS_FAIL fails on. */
#define BAD_ROWS_ADVICE " (--bad-rows skip goes on without such rows)"

/* All rows, on a device with memory of its own, if they take no more than a half of what is left
 * there; else none. */
#define FEED_RESIDENT_AUTO UINT64_MAX

struct feed_options {
    const char *sampler_url; /* copied */
    const char *stream;      /* NULL: "default"; copied */
    const char *token;       /* for the sampler, struct http_credentials; copied */
    const char *authority;   /* the same */
    struct store *store;     /* kept until feed_close(), or until what hung there then returns */
    struct device *device;   /* the same */
    enum feed_pull pull;
    int64_t first_index; /* FEED_INDEX: where the ranks together begin */
    int64_t rank, world; /* FEED_INDEX, rank_walk.h; world 0: 1 */
    int64_t part, parts; /* the same; parts 0: 1 */
    bool pad;
    const struct index_set *done; /* FEED_INDEX: steps that are not taken; copied; NULL: none */
    int64_t batches;              /* end after so many; < 0: when the stream ends */
    size_t batch_rows;            /* B, 1 to 1,000,000 */
    size_t draws_ahead; /* FEED_DRAW, FEED_LEASE: requests in flight, 1 to 64; 0: 4, of leases 2 */
    const char *worker; /* FEED_LEASE: lease_keeper.h; copied */
    size_t
        slots; /* K, 2 to 4096; 0: 8 for draws, leases 16, by index 8 to 64 (about 32 MiB), of large
                      * batches 3 to 8 (256 MiB, where 3 are not more) */
    size_t targets;  /* of them, at most so many hold floats made of bytes on a CPU, and can be out
                      * at a time; 0: `slots`, or, when those are 0 too, what stays in the
                      * processor's cache, at least 4 */
    size_t fetchers; /* threads, 1 to 64; 0: 1 */
    size_t cache_bytes;   /* memory for rows, all or as many as it holds: row_cache.h; 0: none */
    size_t reserve_bytes; /* so much stays free on the machine meanwhile */
    enum bad_rows bad_rows;
    bool expand; /* true: features arrive as f32 (u8 times `scale`); false: as stored */
    float scale; /* 1/255 for u8 pixels; applied to u8 only */
    struct feature_moments moments; /* of features that are f32 then; read by feed_open() alone */
    enum label_element labels;      /* of the batches' device_labels */
    size_t classes;                 /* of one-hot labels; 0: as the store's say (one_hot.h) */
    enum weight_element weights;    /* of the batches' weights: row_attributes.h */
    bool groups;                    /* batches have groups */
    int64_t patience_ms;            /* give up on a silent sampler after this long; < 0: never */
    /* The order that the stream must have from the first batch on, else ERROR_CONFLICT; copied;
     * NULL: FEED_DRAW, or any. */
    const struct sampler_stream *expected;
    uint64_t resident_bytes; /* memory of the device for rows that stay there; 0: none */
    int64_t close_ms;        /* feed_close() leaves behind what hangs longer; 0: 500 */
    /* FEED_INDEX, of a store whose rows differ in length: windows of so many batches, each sorted
     * by length and cut into batches of similar length, which come in an order of their own
     * (pull_bucket.h). Batch K is then any of its window, `first` that of the window. 0: none. */
    size_t bucket_window;
    bool trust_labels; /* the store's labels are not compared with the sampler's (label_check.h) */
    bool wants_integers; /* a warning says where floats seem to be integers that were rounded */
};

struct feed_batch {
    size_t rows;          /* 0 only with BAD_ROWS_SKIP */
    const int64_t *ids;   /* [rows], host */
    const double *labels; /* [rows], host: as reader_fetch() gives them */
    const void *features; /* [rows, width] in device memory: f32 when `expand`, else info.element */
    int64_t epoch, first; /* as the sampler said; `first` is of the batch's first unit */
    int64_t index;        /* FEED_INDEX, FEED_GRANTED: the sampler's; else counted from 0 */
    int64_t seq;          /* FEED_LEASE: of the lease */
    int64_t attempt;      /* FEED_LEASE: how often it was lent, 1 the first time; else 0 */
    const void *device_labels; /* [rows] or [rows, feed_classes()] of feed_labels(), in device
                                * memory; NULL: LABELS_HOST */
    const void *weights;       /* [rows] of the options' element, host; NULL: WEIGHTS_NONE */
    const int64_t *groups;     /* [rows], host: row_attributes.h; NULL: not wanted */
    const void *device_weights, *device_groups; /* the same in device memory */
    size_t width; /* features of a row: F, but where rows differ in length (store.h) those of the
                   * batch's longest, or what longest= allows; shorter ones have zeros behind */
    const int64_t *lengths;        /* [rows], host: how many are the row's; NULL: rows are alike */
    const int64_t *device_lengths; /* the same in device memory */
    int64_t round_epoch; /* FEED_INDEX: of the first batch of its round (puller.h); else epoch */
};

struct feed_stats {
    int64_t batches, rows, bytes;       /* handed out; bytes of features */
    int64_t bad_rows;                   /* skipped or replaced */
    int64_t pull_ns, fetch_ns, copy_ns; /* busy time of the stages, summed over threads */
    int64_t wait_ns;       /* the caller waited in feed_next(), the first batch left out */
    int64_t first_ns;      /* open to first batch */
    int64_t lost;          /* leases that ran out, so that somebody else got the batch, too */
    int64_t resident_rows; /* that stay in the device's memory now */
    int64_t copied_rows;   /* of rows that may stay there: fetched and copied so far */
};

struct feed;

/* Does not wait for the sampler: what is wrong there, feed_next() says; nor for the cache. Where
 * weights or groups are wanted, it reads the keys of all rows. */
enum error feed_open(const struct feed_options *options, struct feed **ret_feed) MUST_CHECK;
/* The first part of closing: all threads are told to leave, and nobody waits for them. Batches that
 * are out stay valid. */
void feed_cancel(struct feed *feed);
/* The second, for when nothing is owed and batches are still out: all threads end, what was trained
 * is acked, and what nobody took is lent to others. After `close_ms` that goes on without the
 * caller. */
void feed_end(struct feed *feed);
/* Is a batch out that was not settled? */
bool feed_owes(const struct feed *feed);
/* Legal at any time; batches that are out are invalid then. Stops the threads (a pull in progress
 * is cancelled, a wait for the store too) and frees everything. What hangs in the system for longer
 * than `close_ms` is left behind with the memory it uses, store and device among it, and frees it
 * when it returns; a warning says so. NULL is legal. */
void feed_close(struct feed *feed);

/* The next batch, the caller's until feed_put(), within `timeout_ms` (< 0: without end), else
 * ERROR_TIMEOUT; a later call brings it. `queue` (the trainer's; NULL will do on the CPU)
 * is made to wait for the copy; the thread is not. ERROR_END after the last one, ERROR_CANCELLED
 * when the program is to stop, else what failed in any stage; asked again, it answers the same. One
 * or two batches may be out at a time (ERROR_USAGE when all K slots are). With BAD_ROWS_SKIP a
 * batch may have no rows left. */
enum error feed_next_within(struct feed *feed, struct device_queue *queue, int64_t timeout_ms,
                            const struct feed_batch **ret_batch) MUST_CHECK;
static inline enum error feed_next(struct feed *feed, struct device_queue *queue,
                                   const struct feed_batch **ret_batch)
{
    return feed_next_within(feed, queue, -1, ret_batch);
}
/* Of an error of feed_next_within(), still this thread's: was only the time over? Any other
 * ERROR_TIMEOUT is a failure of the sampler or the store. */
bool feed_is_not_yet(enum error error);
/* From any thread: a feed_next() that waits, or else the next one that would have to, ends with
 * ERROR_CANCELLED; the one after it goes on where it was. */
void feed_interrupt(struct feed *feed);
/* FEED_GRANTED: `count` batches (< 0: without end) from number `first` on come next, behind those
 * that were granted before. Any thread. ERROR_USAGE: more than 4096 separate runs wait. */
enum error feed_grant(struct feed *feed, int64_t first, int64_t count) MUST_CHECK;
/* Not FEED_DRAW: what the stream is, from the first batch on; before NULL. Valid until
 * feed_close(). */
const struct sampler_stream *feed_stream(const struct feed *feed);
/* After ERROR_END, not FEED_DRAW: the batch that the stream does not have, or that was not asked
 * for. */
int64_t feed_end_index(const struct feed *feed);
/* Gives a batch back; the slot is reused once all that is in `queue` now is done. ERROR_USAGE when
 * it is none of this feed's, or is not out. */
enum error feed_put(struct feed *feed, struct device_queue *queue,
                    const struct feed_batch *batch) MUST_CHECK;

/* The same, but the batch was not trained: FEED_LEASE does not ack it, and when the lease has run
 * out somebody gets it again. */
enum error feed_drop(struct feed *feed, struct device_queue *queue,
                     const struct feed_batch *batch) MUST_CHECK;

/* Says now, of a batch that stays out, whether it was trained: feed_put() or feed_drop() then only
 * give the slot back. The first word counts. ERROR_USAGE as feed_put(). */
enum error feed_settle(struct feed *feed, const struct feed_batch *batch, bool trained) MUST_CHECK;
bool feed_is_settled(const struct feed *feed, const struct feed_batch *batch);

/* The batches that feed_next() hands out are numbers 0, 1, 2, ... ERROR_USAGE as feed_put(). */
enum error feed_number(struct feed *feed, const struct feed_batch *batch,
                       int64_t *ret_number) MUST_CHECK;

/* What device_labels are. */
enum label_element feed_labels(const struct feed *feed);
/* Columns of one-hot labels; 0: they are none. */
size_t feed_classes(const struct feed *feed);
/* Groups that are texts are numbers into this list, borrowed; NULL: they are not. */
const char *const *feed_group_texts(const struct feed *feed, size_t *ret_count);
/* So many batches can be out at a time: K, or the targets. */
size_t feed_slots(const struct feed *feed);
/* Cheap: any thread, at any time. */
void feed_get_stats(const struct feed *feed, struct feed_stats *ret_stats);

#endif
