/* SPDX-License-Identifier: MIT */
/*
 * The ring: K slots, each with room for one batch in host memory (pinned if there is a GPU) and,
 * once copied, in device memory (slot_memory.h), all allocated in ring_new(). The states of a slot:
 *
 *   FREE -> FILLING -> READY -> COPYING -> COPIED -> BUSY -> FREE
 *
 *   state     who may touch the slot's contents
 *   FREE      nobody
 *   FILLING   the fetcher thread that took it
 *   READY     nobody; waits for the copier
 *   COPYING   the copier thread; with `caller_copies`, the caller, if it waits for the batch
 *   COPIED    nobody; waits for the feed's caller
 *   BUSY      the feed's caller, from feed_next() to feed_put()
 *
 * Batches have sequence numbers 0, 1, 2, ...; slots become READY in any order, but COPYING and BUSY
 * in the order of their numbers, so the order of batches does not depend on the number or the speed
 * of threads.
 *
 * The end: ring_end() says from which number on nothing will come, and why (the stream's end, or a
 * failure with its message). Batches before it are still delivered.
 *
 * Threads: any, except for ring_free(). Every wait ends, within a tenth of a second, after
 * ring_stop() or stop_requested().
 *
 * Dimensions: K slots, B rows per batch.
 */
#ifndef LOADER_FEED_RING_H
#define LOADER_FEED_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/store/store.h"

#define RING_SLOTS_LIMIT 4096

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_COPYING, SLOT_COPIED, SLOT_BUSY };
#define SLOT_STATES 6

struct slot {
    size_t number; /* 0..K-1, constant */
    /* The memory; constant, except `device` if there are fewer targets than slots. */
    int64_t *ids;            /* [B], host */
    double *labels;          /* [B], host */
    enum row_status *status; /* [B], host: as fetched, before any is skipped */
    void *host_labels;    /* [B] of the labels' element, host; NULL: not requested on the device */
    void *device_labels;  /* the same on the device; on a CPU `host_labels` */
    void *one_hot;        /* one-hot rows of those codes, on the device; NULL: not requested */
    void *weights;        /* [B] of the weights' element, host; NULL: not requested */
    void *device_weights; /* the same on the device; on a CPU `weights` */
    int64_t *groups;      /* [B], host; NULL: not requested */
    void *device_groups;  /* the same on the device; on a CPU `groups` */
    int64_t *lengths;     /* [B], host: features of each row; NULL: all alike */
    int64_t *device_lengths; /* the same on the device; on a CPU `lengths` */
    void *host;              /* [B, row_bytes], pinned; with lengths [rows, width] of it */
    void *device; /* its target, [B, device_row_bytes], while COPYING, COPIED and BUSY; `host` if
                   * those are 0 */
    uint32_t *places;        /* [B], host; its rows' places, if not in `host`; NULL: always there */
    uint32_t *device_places; /* the same on the device; on a CPU `places` */
    struct device_event *copied;   /* recorded after the copy to the device */
    struct device_event *released; /* recorded after the caller's work with the batch */
    /* The batch; written by the state's owner. */
    int64_t sequence;
    int64_t epoch, first, index, seq, attempt; /* as in struct pull */
    size_t rows;                               /* 0..B */
    size_t width;                              /* features per row, including zeros */
    size_t bad_rows;                           /* skipped, or replaced by zeros */
    size_t new_rows,
        own_rows; /* with places: rows in `host` that stay on the device, at places from `new_place`
                   * on, and after them those that do not */
    uint32_t new_place;
    struct store_memory memory; /* that places refer to; `rows` NULL: the batch's rows are in
                                 * `host` */
    bool settled;               /* BUSY: its caller settled whether it was trained */
    /* Private to the ring. */
    enum slot_state state;
};

struct ring_shape {
    size_t slots;            /* K, 2 to RING_SLOTS_LIMIT */
    size_t rows;             /* B */
    size_t row_bytes;        /* of a row as fetched */
    size_t device_row_bytes; /* of a row on the device; 0: the host memory is used (CPU, or rows of
                              * no bytes) */
    size_t label_bytes;      /* of a label on the device; 0: not requested there */
    size_t one_hot_bytes;    /* of its one-hot row, of which `label_bytes` are the code; 0: none */
    size_t weight_bytes;     /* of a row's weight and group; 0: not requested */
    size_t group_bytes;
    bool has_lengths;   /* rows differ in length */
    bool has_places;    /* rows are gathered by their places */
    size_t targets;     /* batches on the device at a time, on a CPU; 0: K */
    bool caller_copies; /* a caller that waits for a batch copies one that nobody copies yet */
};

struct ring;

/* `device` is borrowed until ring_free(). ERROR_MEMORY names what did not fit. */
enum error ring_new(const struct ring_shape *shape, struct device *device,
                    struct ring **ret_ring) MUST_CHECK;
/* After all threads have ended. NULL is legal. */
void ring_free(struct ring *ring);

/* FREE -> FILLING. Waits for a free slot. */
enum error ring_take_free(struct ring *ring, struct slot **ret_slot) MUST_CHECK;
/* FILLING -> READY, as number `sequence`. */
void ring_filled(struct ring *ring, struct slot *slot, int64_t sequence);
/* READY -> COPYING. Waits for the next number that nobody copies yet and for a target; at or after
 * the end, returns the end's error with its message. */
enum error ring_take_ready(struct ring *ring, struct slot **ret_slot) MUST_CHECK;
/* The same for the batch after that of `slot`, which is COPYING, but without waiting: NULL unless
 * it is READY, has a free target, and its memory directly follows that of `slot`. */
struct slot *ring_take_adjacent(struct ring *ring, const struct slot *slot);
/* COPYING -> COPIED. */
void ring_copied(struct ring *ring, struct slot *slot);
#define RING_NOT_YET "not-yet"
/* COPIED -> BUSY; or, with `caller_copies`, READY -> COPYING, of this batch or, while that is
 * COPYING, of a later one: the caller then copies it, calls ring_copied(), and calls this again.
 * Waits for number `sequence` until `deadline_ns` (clock.h), then ERROR_TIMEOUT of the kind
 * RING_NOT_YET; at or after the end as ring_take_ready(). A wait of many seconds is logged, with
 * the stage responsible. ERROR_USAGE if the maximum number of batches is BUSY: the wait might never
 * end. */
enum error ring_take_copied(struct ring *ring, int64_t sequence, int64_t deadline_ns,
                            struct slot **ret_slot) MUST_CHECK;
/* Ends the current wait of ring_take_copied(), or the next one, with ERROR_CANCELLED. */
void ring_interrupt(struct ring *ring);
/* Is it with the caller? */
bool ring_is_busy(struct ring *ring, const struct slot *slot);
/* BUSY -> FREE. */
void ring_put(struct ring *ring, struct slot *slot);

/* Numbers below `count` were pulled from the sampler; for the log line of a long wait. */
void ring_pulled(struct ring *ring, int64_t count);
/* Also for it: why the sampler has no batch; copied; NULL: it has some. */
void ring_say(struct ring *ring, const char *reason);
/* Numbers from `sequence` on will not come, because of `report`. Of several ends the earliest
 * counts. */
void ring_end(struct ring *ring, int64_t sequence, const struct error_report *report);
/* All waits, now and later, end with ERROR_CANCELLED. */
void ring_stop(struct ring *ring);

struct slot *ring_slot(struct ring *ring, size_t number);
/* How many batches can be BUSY at a time. */
size_t ring_targets(const struct ring *ring);

#endif
