/* SPDX-License-Identifier: MIT */
/*
 * The ledger of one stream: its position, the gaps to be drawn first, which batches are leased to
 * whom, what every worker used and acked, what was done lately. In memory only: no file, no clock,
 * no frame.
 *
 * Everything that changes it, but for time, is a struct entry (journal_entry.h) and goes through
 * ledger_apply(): the same entries make the same ledger. ledger_plan.h decides which entry a
 * request becomes. Every position is in one of four states:
 *
 *   ahead    from `position` on, and in `gaps` (after a restore, or draws that were undone)
 *   leased   in `leases`, leased or waiting to be redelivered
 *   skipped  in `skipped`: never drawn, and not to come (ledger_skipped.h)
 *   done     everything else below `position`
 *
 * Time moves batches from leased to waiting (ledger_expire()), and that is not kept: after a
 * restart every batch that was leased has a whole lease again (ledger_start()).
 *
 * Times are milliseconds of a clock that only goes forward. Not for several threads at once.
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

/* Bounds of the deadline that adapts itself: twice the mean time that a batch is held. */
#define LEDGER_LEASE_LEAST_MS 30000
#define LEDGER_LEASE_MOST_MS 3600000

struct ledger_listing;
struct ledger_past;

struct ledger {
    int64_t lease_ms; /* of the stream's definition; 0: adaptive */
    int64_t position; /* the next new one */
    bool paused;
    struct intervals gaps;
    struct intervals skipped;
    struct intervals room;    /* in which a seek merges a new `skipped`, or a restore makes gaps */
    struct ledger_past *past; /* for what a seek or restore takes out (ledger_past.h), and what a
                               * seek took, until it is settled; borrowed, or NULL */
    struct lease_set leases;
    struct worker_table workers;
    struct lease_history history;
    int64_t acked;       /* batches that are done, with those drawn without a worker */
    int64_t redelivered; /* how often a batch was redelivered */
    int64_t handed;      /* how often a batch was handed out */
    int64_t mean_ms;     /* that a batch is held; 0: not known */
    int64_t jumps;       /* seeks and restores since the start: a draw before one is forgotten */
    int64_t samples;     /* in the mean, up to LEDGER_MEAN_SAMPLES */
    struct ledger_listing *listings; /* that are on their way (ledger_listing.h); borrowed */
    size_t expired_count; /* [expired_count] leases that the last ledger_expire() expired */
    uint32_t expired[LEDGER_EXPIRE_AT_ONCE];
};

void ledger_init(struct ledger *ledger);
void ledger_release(struct ledger *ledger);
/* A stream that begins at `position` (>= 0), right after ledger_init(). */
enum error ledger_begin(struct ledger *ledger, int64_t position) MUST_CHECK;

/* The memory that applying the entry takes: ERROR_MEMORY, also at the limit on workers. A new
 * worker is there from now on, and one whose place it takes is forgotten. */
enum error ledger_prepare(struct ledger *ledger, const struct entry *entry) MUST_CHECK;
/* Entries from a file: ERROR_INPUT when this one cannot follow what the ledger says. */
enum error ledger_check(const struct ledger *ledger, const struct entry *entry) MUST_CHECK;
/* Applies an entry that was prepared (and, from a file, checked). */
void ledger_apply(struct ledger *ledger, const struct entry *entry, int64_t now_ms);

/* All leased batches get a whole lease from now on. */
void ledger_start(struct ledger *ledger, int64_t now_ms);
/* Batches whose deadline has passed wait from now on, some dozens a call. */
void ledger_expire(struct ledger *ledger, int64_t now_ms);
/* How long a lease is at the moment. */
int64_t ledger_lease_ms(const struct ledger *ledger);

/* Calls `add` with the entries that make this ledger out of an empty one; an error ends it. */
enum error ledger_write(const struct ledger *ledger, uint32_t stream,
                        enum error (*add)(void *context, const struct entry *entry),
                        void *context) MUST_CHECK;

#endif
