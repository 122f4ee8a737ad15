/* SPDX-License-Identifier: MIT */
/*
 * DIR/journal, the write-ahead log of all streams: every change, in order, in a file that survives
 * kill -9 and power loss at any instant. When it gets long it is compacted: a shorter file that
 * makes the same ledgers is written while draws go on, and takes the old one's name.
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
 * Memory is reserved before anything moves; a disk that is known to be full refuses then, too. When
 * a write or fdatasync() fails after all, or does not return, every waiter gets the error, the
 * owner undoes what no response has said, changes are refused, and the committer writes a new file
 * from the owner's memory, four times a second, until that works.
 *
 * Threads: the owner's mutex is held for all calls that say so; the disk is asked for nothing with
 * the mutex held. The committer's thread alone calls journal_work(), another one journal_watch().
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

/* Whose changes are kept: its ledgers, which `mutex` guards, and the journal. Entries, applied in
 * order to empty ledgers, make the same ledgers. */
struct journal_owner {
    pthread_mutex_t *mutex;
    void *ledgers;
    /* At the start, and into other ledgers beside those in use. ERROR_INPUT: the entry cannot
     * follow those before it. */
    enum error (*replay)(void *ledgers, const struct entry *entry);
    /* Calls `add` with the entries that make these ledgers of empty ones. The mutex is held, if
     * they are the ledgers in use. */
    enum error (*write)(void *ledgers, enum error (*add)(void *adding, const struct entry *entry),
                        void *adding);
    /* Empty ledgers, for the committer alone: without the mutex. */
    enum error (*ledgers_new)(void **ret_ledgers);
    void (*ledgers_free)(void *ledgers);
    /* What this waiter waits for was not kept: undo it. The mutex is held; newest first. False:
     * that takes the ledgers of before, which take_back() gets. */
    bool (*undo)(void *ledgers, struct journal_waiter *waiter);
    /* What undo() could not undo becomes as in `kept`, ledgers_new() as of the last commit, which
     * are freed afterwards. The mutex is not held, and nothing changes meanwhile. */
    void (*take_back)(void *ledgers, void *kept);
};

/* Memory for a large entry. */
struct journal_memory {
    uint8_t *bytes; /* owned */
    size_t capacity;
};

/* Times of writing to the disk: counts by upper bound in microseconds, the last without one. */
#define JOURNAL_SYNC_BOUNDS_US                                                            \
    {                                                                                     \
        50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000 \
    }
#define JOURNAL_SYNC_BUCKETS 14

struct journal_counts {
    uint64_t entries;
    uint64_t bytes;   /* of these entries, with their records' heads */
    uint64_t commits; /* writes with fdatasync() */
    uint64_t failures;
    uint64_t rewrites;                           /* compactions */
    uint64_t file_bytes;                         /* in use now */
    uint64_t sync_buckets[JOURNAL_SYNC_BUCKETS]; /* of the commits; not cumulative */
    double sync_seconds;
};

/* Reads DIR/journal of an open state folder; nothing of it is written before journal_begin().
 * `owner` is copied. ERROR_INPUT: damaged or cut, with the offset at which it ends; when that is
 * `accept_loss` (0: none) it goes on there, and the damaged file stays as DIR/journal.damaged, a
 * second one as DIR/journal.damaged.2. */
enum error journal_open(struct state *state, enum durability durability, uint64_t accept_loss,
                        const struct journal_owner *owner, struct journal **ret_journal) MUST_CHECK;
/* From here on what is appended is kept. Clears a torn tail, or writes a new file from the owner's
 * memory; on the disk when this returns. ERROR_NO_SPACE for a new one only. */
enum error journal_begin(struct journal *journal) MUST_CHECK;
/* The orderly end: everything that was appended is on the disk, and the journal says so; changes
 * are refused from now on. With DURABILITY_NONE it is written here. ERROR_IO: also if the folder is
 * another's by now. */
enum error journal_finish(struct journal *journal) MUST_CHECK;
/* NULL is legal. */
void journal_close(struct journal *journal);

/* Before an entry of many kilobytes, so that journal_reserve() finds room in the file, and memory
 * by journal_use_memory(): waits for the disk to make that room, some seconds at most.
 * Whether there is any, journal_reserve() says. The mutex is not held; `bytes` as there. */
enum error journal_prepare(struct journal *journal, size_t bytes,
                           struct journal_memory *ret_memory) MUST_CHECK;
/* The mutex need not be held. */
void journal_memory_release(struct journal_memory *memory);

/* ---- the mutex is held -------------------------------------------------- */

/* Before journal_reserve(): if it is more than the journal has, they change places. */
void journal_use_memory(struct journal *journal, struct journal_memory *memory);
/* Room for entries of together `bytes` (sums of journal_record_bytes()). ERROR_NO_SPACE, ERROR_IO:
 * also while it is failing. */
enum error journal_reserve(struct journal *journal, size_t bytes) MUST_CHECK;
/* Room is reserved. */
void journal_append(struct journal *journal, const struct entry *entry);
/* Is something not kept yet as the durability promises? */
bool journal_is_behind(const struct journal *journal);
/* ready() is called when all that was appended so far is kept, or could not be: before this
 * returns, while nothing can be kept. */
void journal_wait(struct journal *journal, struct journal_waiter *waiter);
bool journal_failing(const struct journal *journal);
/* Sets this thread's message; returns the code. */
enum error journal_failure(const struct journal *journal);
void journal_get_counts(const struct journal *journal, struct journal_counts *ret_counts);

/* ---- for the committer, without the mutex ------------------------------- */

/* Sleeps until there is something to do, at most until the deadline, and does it: a commit, the
 * watermark, a piece of a compaction, a retry. False: nothing was committed. `stopping`: commits
 * what there is, without sleeping. */
bool journal_work(struct journal *journal, int64_t deadline_ns, bool stopping);
/* Wakes journal_work(). */
void journal_wake(struct journal *journal);
/* Another thread's, twice a second or so: if those who wait have not been answered for some
 * seconds, they are refused, as if the disk had failed, and so is whoever comes, until it answers.
 * Never waits for the disk. */
void journal_watch(struct journal *journal, int64_t now_ns);

#endif
