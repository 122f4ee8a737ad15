/* SPDX-License-Identifier: MIT */
/*
 * The ledger of one stream: its position, the gaps to be drawn first, the leases and their workers,
 * each worker's used and acked seqs, recent history. In memory only: no file, no clock, no frame.
 *
 * Every change except by time is a struct entry (journal_entry.h) and goes through ledger_apply():
 * the same entries make the same ledger. ledger_plan.h decides which entry a request becomes. Every
 * position is in one of four states:
 *
 *   ahead    from `position` on, and in `gaps` (after a restore, or draws that were undone)
 *   leased   in `leases`, leased or waiting to be redelivered
 *   skipped  in `skipped`: never drawn, and not to come (ledger_skipped.h)
 *   done     everything else below `position`
 *
 * Time moves batches from leased to waiting (ledger_expire()). That is not journaled: after a
 * restart every leased batch has a full lease again (ledger_start()).
 *
 * Times are milliseconds of a monotonic clock. Not thread-safe.
 */
#ifndef SAMPLER_LEDGER_LEDGER_H
#define SAMPLER_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/journal/journal_entry.h"
#include "sampler/ledger/intervals.h"
#include "sampler/ledger/lease_history.h"
#include "sampler/ledger/lease_set.h"
#include "sampler/ledger/worker_table.h"

#define LEDGER_MEAN_SAMPLES 16
#define LEDGER_EXPIRE_AT_ONCE 64

/* Bounds of the adaptive deadline: twice the mean time that a batch is held. */
#define LEDGER_LEASE_LEAST_MS 30000
#define LEDGER_LEASE_MOST_MS 3600000

struct ledger_listing;
struct ledger_past;

struct ledger {
    int64_t lease_ms; /* of the stream's definition; 0: adaptive */
    int64_t position; /* the next new position */
    bool paused;
    struct intervals gaps;
    struct intervals skipped;
    struct intervals room;    /* for a seek to merge a new `skipped`, or a restore to make gaps */
    struct ledger_past *past; /* receives what a seek or restore removes (ledger_past.h); a seek's
                                 until it is settled; borrowed, or NULL */
    struct lease_set leases;
    struct worker_table workers;
    struct lease_history history;
    int64_t acked;       /* batches that are done, including those drawn without a worker */
    int64_t redelivered; /* how often batches were redelivered */
    int64_t handed;      /* how often batches were handed out */
    int64_t mean_ms;     /* for which a batch is held; 0: not known */
    int64_t jumps;       /* seeks and restores since the start: older draws cannot be undone */
    int64_t samples;     /* in the mean, up to LEDGER_MEAN_SAMPLES */
    struct ledger_listing *listings; /* in progress (ledger_listing.h); borrowed */
    size_t expired_count; /* [expired_count] leases that the last ledger_expire() expired */
    uint32_t expired[LEDGER_EXPIRE_AT_ONCE];
};

void ledger_init(struct ledger *ledger);
void ledger_release(struct ledger *ledger);
/* A stream that begins at `position` (>= 0), right after ledger_init(). */
enum error ledger_begin(struct ledger *ledger, int64_t position) MUST_CHECK;

/* Reserves the memory that applying the entry needs: ERROR_MEMORY, also at the limit on workers.
 * Adds a new worker at once, and forgets the one that it replaces. */
enum error ledger_prepare(struct ledger *ledger, const struct entry *entry) MUST_CHECK;
/* For entries from a file: ERROR_INPUT if this one cannot follow the ledger's state. */
enum error ledger_check(const struct ledger *ledger, const struct entry *entry) MUST_CHECK;
/* Applies an entry that was prepared (and, from a file, checked). */
void ledger_apply(struct ledger *ledger, const struct entry *entry, int64_t now_ms);

/* Gives every leased batch a full lease from now on. */
void ledger_start(struct ledger *ledger, int64_t now_ms);
/* Moves batches whose deadline has passed to the queue, at most LEDGER_EXPIRE_AT_ONCE per call. */
void ledger_expire(struct ledger *ledger, int64_t now_ms);
/* Current duration of a lease. */
int64_t ledger_lease_ms(const struct ledger *ledger);

/* Calls `add` with the entries that rebuild this ledger from an empty one; an error ends it. */
enum error ledger_write(const struct ledger *ledger, uint32_t stream,
                        enum error (*add)(void *context, const struct entry *entry),
                        void *context) MUST_CHECK;

#endif
