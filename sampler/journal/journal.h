/* SPDX-License-Identifier: MIT */
/*
 * DIR/journal, the write-ahead log of all streams: every change, in order, in a file that survives
 * kill -9 and power loss at any instant. When it gets long it is compacted: a shorter file that
 * rebuilds the same ledgers is written while draws continue, and replaces the old one by rename.
 *
 *   DURABILITY_FSYNC    the committer (committer.h) writes and fdatasync()s what was appended; all
 *                       changes that come meanwhile share the next write (group commit). Callers
 *                       wait: journal_wait()
 *   DURABILITY_PROCESS  an entry lies in pages of the file when journal_append() returns: survives
 *                       kill -9, not power loss. Where there is no mapping of them (on network file
 *                       systems, and for a moment when the file grows late) the committer writes
 *                       it, and callers wait as with `fsync`
 *   DURABILITY_NONE     nothing is written before the orderly end
 *
 * Memory is reserved before anything changes; if the disk is known to be full, the change is
 * refused then. If a write or fdatasync() fails later or does not return, every waiter gets the
 * error, the owner undoes changes that no response has reported, further changes are refused, and
 * the committer tries four times a second to write a new file from the owner's memory.
 *
 * Threads: calls that say so need the owner's mutex; no disk I/O happens with the mutex held. Only
 * the committer's thread calls journal_work(), and another thread journal_watch().
 */
#ifndef SAMPLER_JOURNAL_JOURNAL_H
#define SAMPLER_JOURNAL_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/journal/journal_entry.h"
#include "sampler/journal/journal_waiter.h"

enum durability { DURABILITY_FSYNC, DURABILITY_PROCESS, DURABILITY_NONE };

struct journal;
struct state;

/* The owner of the state that is journaled: its ledgers, guarded by `mutex`, and the journal.
 * Entries applied in order to empty ledgers rebuild the same ledgers. */
struct journal_owner {
    pthread_mutex_t *mutex;
    void *ledgers;
    /* At the start, and later into separate ledgers. ERROR_INPUT: the entry cannot follow those
     * before it. */
    enum error (*replay)(void *ledgers, const struct entry *entry);
    /* Calls `add` with the entries that rebuild these ledgers from empty ones. The mutex is held if
     * they are the live ledgers. */
    enum error (*write)(void *ledgers, enum error (*add)(void *adding, const struct entry *entry),
                        void *adding);
    /* Empty ledgers for the committer; called without the mutex. */
    enum error (*ledgers_new)(void **ret_ledgers);
    void (*ledgers_free)(void *ledgers);
    /* Undoes this waiter's change, which could not be made durable. The mutex is held; newest
     * first. False: undoing needs the earlier ledgers, which take_back() gets. */
    bool (*undo)(void *ledgers, struct journal_waiter *waiter);
    /* Reverts what undo() could not to `kept`: ledgers from ledgers_new() as of the last commit,
     * which the caller frees. The mutex is not held, and nothing else changes meanwhile. */
    void (*take_back)(void *ledgers, void *kept);
};

/* Memory for a large entry. */
struct journal_memory {
    uint8_t *bytes; /* owned */
    size_t capacity;
};

/* Latency of disk commits: bucket bounds in microseconds; the last bucket has none. */
#define JOURNAL_SYNC_BOUNDS_US                                                            \
    {                                                                                     \
        50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000 \
    }
#define JOURNAL_SYNC_BUCKETS 14

struct journal_counts {
    uint64_t entries;
    uint64_t bytes;   /* of these entries, with their record heads */
    uint64_t commits; /* writes followed by fdatasync() */
    uint64_t failures;
    uint64_t rewrites;                           /* compactions */
    uint64_t file_bytes;                         /* in use now */
    uint64_t sync_buckets[JOURNAL_SYNC_BUCKETS]; /* of the commits; not cumulative */
    double sync_seconds;
};

/* Reads DIR/journal of an open state folder; writes nothing to it before journal_begin(). `owner`
 * is copied. ERROR_INPUT: damaged or cut; the message gives the offset at which it ends. If that
 * equals `accept_loss` (0: none), the journal continues from there, and the damaged file stays as
 * DIR/journal.damaged, a second one as DIR/journal.damaged.2. */
enum error journal_open(struct state *state, enum durability durability, uint64_t accept_loss,
                        const struct journal_owner *owner, struct journal **ret_journal) MUST_CHECK;
/* Appended entries are kept from now on. Clears a torn tail, or writes a new file from the owner's
 * memory; durable when this returns. ERROR_NO_SPACE only for a new file. */
enum error journal_begin(struct journal *journal) MUST_CHECK;
/* Orderly end: everything appended is on the disk, and the journal says so; later changes are
 * refused. With DURABILITY_NONE this writes it all. ERROR_IO also if another server took the folder
 * over. */
enum error journal_finish(struct journal *journal) MUST_CHECK;
/* NULL is legal. */
void journal_close(struct journal *journal);

/* Call before an entry of many kilobytes, so that journal_reserve() finds room in the file and,
 * through journal_use_memory(), memory. Waits a few seconds at most for the disk to provide the
 * room; journal_reserve() reports whether it did. The mutex is not held; `bytes` as there. */
enum error journal_prepare(struct journal *journal, size_t bytes,
                           struct journal_memory *ret_memory) MUST_CHECK;
/* The mutex need not be held. */
void journal_memory_release(struct journal_memory *memory);

/* ---- the mutex is held -------------------------------------------------- */

/* Before journal_reserve(): swaps buffers if this one is larger than the journal's. */
void journal_use_memory(struct journal *journal, struct journal_memory *memory);
/* Room for entries of `bytes` in total (sums of journal_record_bytes()). ERROR_NO_SPACE; ERROR_IO
 * also while the journal is failing. */
enum error journal_reserve(struct journal *journal, size_t bytes) MUST_CHECK;
/* Room must be reserved. */
void journal_append(struct journal *journal, const struct entry *entry);
/* Is an appended entry not yet as durable as promised? */
bool journal_is_behind(const struct journal *journal);
/* Calls ready() once everything appended so far is durable or has failed; before this returns, if
 * the journal is failing. */
void journal_wait(struct journal *journal, struct journal_waiter *waiter);
bool journal_failing(const struct journal *journal);
/* Sets this thread's message; returns the code. */
enum error journal_failure(const struct journal *journal);
void journal_get_counts(const struct journal *journal, struct journal_counts *ret_counts);

/* ---- for the committer, without the mutex ------------------------------- */

/* Sleeps until there is work, at most until the deadline, and does it: a commit, the watermark, a
 * piece of a compaction, a retry. False: nothing was committed. `stopping`: commits what is pending
 * without sleeping. */
bool journal_work(struct journal *journal, int64_t deadline_ns, bool stopping);
/* Wakes journal_work(). */
void journal_wake(struct journal *journal);
/* Called about twice a second by another thread: if waiters have had no answer for several seconds,
 * refuses them as if the disk had failed, and all new changes, until the disk responds. Never waits
 * for the disk. */
void journal_watch(struct journal *journal, int64_t now_ns);

#endif
