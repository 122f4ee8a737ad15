/* SPDX-License-Identifier: MIT */
/* Shared by the journal's files. Private to journal*.c. */
#ifndef SAMPLER_JOURNAL_JOURNAL_PRIVATE_H
#define SAMPLER_JOURNAL_JOURNAL_PRIVATE_H

#include "common/buffer.h"
#include "sampler/journal/journal.h"
#include "sampler/journal/journal_record.h"

#define JOURNAL_PAGE_BYTES 4096
/* The file grows in steps of a quarter of its size, within these bounds. */
#define JOURNAL_STEP_LEAST_BYTES ((uint64_t)64 << 10)
#define JOURNAL_STEP_MOST_BYTES ((uint64_t)1 << 20)
/* Compacted when it exceeds twice the size of its ledgers at the last compaction by this much. */
#define JOURNAL_LONG_BYTES ((uint64_t)16 << 20)
#define JOURNAL_RETRY_MS 250
/* A compaction that failed is tried again after this long, or once the journal is another
 * JOURNAL_LONG_BYTES longer. */
#define JOURNAL_REWRITE_RETRY_MS 60000
/* How often the watermark is written while it lags (DURABILITY_FSYNC). */
#define JOURNAL_WATERMARK_MS 50
/* Waiters are refused if the disk has not responded for this long: shorter than the timeouts of
 * clients and proxies, longer than a busy disk takes. A false alarm costs a 503. */
#define JOURNAL_PATIENCE_MS 5000
#define JOURNAL_LOOK_MS 1000 /* between checks whether the file is still there */
/* Entries of at least this size wait in memory for the committer, which touches new pages of the
 * file without the mutex. */
#define JOURNAL_LARGE_BYTES ((size_t)64 << 10)
/* How long an answer to refused changes waits for them to be removed from the file. */
#define JOURNAL_UNDO_MS 1000

/* One file of the journal: the live one, or its replacement beside it. */
struct journal_file {
    int descriptor;   /* -1: none */
    const char *path; /* borrowed */
    int64_t shift;    /* LSN - offset */
    uint64_t room;    /* bytes that are allocated on disk and mapped */
    uint64_t ready;   /* bytes that are allocated on disk, at least `room` */
    uint64_t length;  /* of the file: at least `ready` */
    uint8_t *map;     /* [room], or NULL: written with pwrite() */
};

static inline uint64_t journal_file_offset(const struct journal_file *file, uint64_t lsn)
{
    return lsn - (uint64_t)file->shift;
}

/* Entries as records in memory. */
struct journal_bytes {
    uint8_t *bytes; /* owned */
    size_t length;
    size_t capacity;
};

/* The live file, read again into separate ledgers, piece by piece. */
struct journal_reread {
    void *ledgers; /* owned; NULL: none */
    uint64_t at;   /* offset up to which its entries are applied */
    struct journal_bytes window;
    struct entry_numbers numbers;
};

/*
 * State of the journal. Only journal_turn() changes it, under the mutex, and asserts these moves:
 *
 *     FRESH    -> WHOLE, TORN, LOST       journal_open() found a file
 *     these 4  -> RUNNING, MEMORY         journal_begin()
 *     WHOLE, TORN -> FAILING              journal_begin() had no room: what is kept is served
 *     RUNNING  -> FULL                    the file cannot grow
 *     FULL     -> RUNNING                 it grew
 *     RUNNING, FULL -> FAILING            a write or fdatasync() failed, or did not return in time:
 *                                         the file is not trusted
 *     FAILING  -> RUNNING                 compacted from the owner's memory into a new file
 *     all but the first 4 -> FINISHED     journal_finish()
 */
enum journal_condition {
    JOURNAL_FRESH,   /* there was no file: journal_begin() writes one */
    JOURNAL_WHOLE,   /* read to its end */
    JOURNAL_TORN,    /* read up to a torn last record, which is cleared */
    JOURNAL_LOST,    /* read up to accepted damage: journal_begin() writes a new file */
    JOURNAL_MEMORY,  /* DURABILITY_NONE: entries are not written before the orderly end */
    JOURNAL_RUNNING, /* entries are kept as the durability says */
    JOURNAL_FULL,    /* nothing more fits; what is in the file is sound */
    JOURNAL_FAILING, /* changes are refused until the file is replaced */
    JOURNAL_FINISHED /* after the orderly end: nothing more is appended */
};

/* Compaction, piece by piece. journal_rewrite_step() moves from each phase to the next,
 * journal_rewrite_abandon() back to REWRITE_NONE; committer's thread. */
enum rewrite_phase {
    REWRITE_NONE,   /* none in progress; one begins at an LSN, `start` */
    REWRITE_READ,   /* reads the file up to `start` into separate ledgers */
    REWRITE_LIST,   /* turns them into entries, and frees them */
    REWRITE_WRITE,  /* writes these to the new file */
    REWRITE_COPY,   /* copies what was appended since */
    REWRITE_SETTLE, /* syncs all of it */
    REWRITE_SWITCH, /* copies the last entries; renames */
    REWRITE_DISPOSE /* frees the old file */
};

struct journal_rewrite {
    enum rewrite_phase phase;
    int64_t worked_ns; /* start of the current piece */
    enum error (*yield)(struct journal *);
    struct journal_reread reread;
    struct journal_file file;     /* under a temporary name; after the switch, the old file */
    struct journal_bytes records; /* of all state at LSN `start`; sealed as written */
    size_t records_written;
    uint64_t piece_bytes;               /* copied per piece */
    uint64_t start;                     /* LSN */
    uint64_t copied;                    /* LSN up to which the old file's records were copied */
    struct journal_watermark watermark; /* of the new file */
};

struct journal {
    struct journal_owner owner;
    enum durability durability;
    bool maps; /* the file system supports mapping */
    enum journal_condition condition;
    uint64_t accept_loss;
    const struct state *state; /* borrowed: we own the folder as long as state_confirm() says so */
    char *folder;              /* owned, and the two below */
    char *path;
    char *new_path;
    uint64_t id;

    struct journal_file file;
    uint64_t end;                       /* LSN after the last entry */
    uint64_t written;                   /* LSN up to which entries are in the file */
    uint64_t synced;                    /* LSN up to which they are on the disk */
    uint64_t synced_room;               /* of file.room, on the disk */
    struct journal_watermark watermark; /* as last written */
    int64_t watermark_ns;
    uint64_t rewrite_at;          /* LSN at which compaction is due */
    int64_t rewrite_ns;           /* when it is due in any case: one failed; else INT64_MAX */
    bool into_map;                /* the file's map has room for the next append */
    bool map_lost;                /* a store into it failed (SIGBUS): it is only memory now */
    struct journal_bytes pending; /* records after those of the file and of `group`, up to `end` */
    struct journal_bytes group;   /* records from `written` on that are being written */
    struct journal_bytes spare;   /* the buffer that neither uses */
    struct journal_rewrite rewrite;
    bool switches; /* the file is about to be replaced: nothing goes into its map */

    uint64_t wanted;                    /* file size that a caller is waiting for */
    pthread_cond_t grown;               /* the file grew, or could not */
    int64_t growth_ns;                  /* when the committer may next try to grow it ahead */
    struct error_report growth_failure; /* of the last attempt; or OK */

    pthread_cond_t changed;
    bool sleeps; /* journal_work() waits for `changed` */
    bool woken;
    struct journal_waiter *waiters; /* in order of arrival */
    struct journal_waiter **waiters_end;
    struct journal_waiter *committing; /* waiting for `group` or what precedes it */
    struct journal_waiter *refused;    /* whose changes are undone, not answered yet */
    size_t waiting;                    /* number of `waiters` */
    size_t target;                     /* number of waiters at which to wake the committer */
    size_t answered;                   /* by the last commit: expect about as many again */
    int64_t sync_mean_ns;              /* of recent commits */

    uint64_t answers;         /* how often waiters have been answered */
    uint64_t watched_answers; /* journal_watch(): its value since which no waiter was answered */
    int64_t watched_ns;
    struct errand *undoing; /* removes refused changes from the file; NULL: none, or another way */

    int64_t look_ns;  /* when to check next whether the file is still there */
    int64_t retry_ns; /* FULL, FAILING: time of the next retry */
    bool is_ahead;    /* FAILING: ledgers hold unkept changes; journal_read_back() */
    struct error_report failure;
    struct journal_counts counts;
};

/* ---- journal_file.c ----------------------------------------------------- */

/* Is PATH free, or a leftover journal of ours? ERROR_INPUT: it is something else. */
enum error journal_file_check_left(const char *path) MUST_CHECK;
/* Creates PATH (borrowed) for a journal; replaces a leftover of ours, fails on any other file. */
enum error journal_file_create(struct journal_file *file, const char *path) MUST_CHECK;
/* Does not follow symbolic links; ERROR_INPUT: not a regular file. */
enum error journal_file_open(struct journal_file *file, const char *path) MUST_CHECK;
/* False: somebody removed, replaced or truncated it. True also if that cannot be determined. */
bool journal_file_is_there(const struct journal_file *file);
/* True: its path certainly leads to it. Opens the path: a network file system then asks its
 * server. */
bool journal_file_has_name(const struct journal_file *file);
void journal_file_close(struct journal_file *file);
/* For a file that is no longer referenced: frees at most `most` of its bytes. False: none are
 * left. */
bool journal_file_dispose(struct journal_file *file, uint64_t most);
/* Afterwards at least `bytes` of the file are allocated on disk, zeros after existing content: they
 * are `ready`. Does disk I/O. */
enum error journal_file_prepare(struct journal_file *file, uint64_t bytes, bool maps) MUST_CHECK;
/* The same, and they become room, mapped if `maps`. Fast if they are ready. */
enum error journal_file_grow(struct journal_file *file, uint64_t bytes, bool maps) MUST_CHECK;
/* By how much a file of this size grows. */
uint64_t journal_file_step(uint64_t bytes);
enum error journal_file_write(const struct journal_file *file, const void *bytes, size_t length,
                              uint64_t offset) MUST_CHECK;
enum error journal_file_sync(const struct journal_file *file) MUST_CHECK;
/* How many of these two calls have returned, over all files: shows whether the disk still makes
 * progress during shutdown. */
uint64_t journal_file_calls(void);
/* Writes data from `begin` on to the disk, without metadata, so that the next journal_file_sync()
 * is short. */
enum error journal_file_push(const struct journal_file *file, uint64_t begin) MUST_CHECK;
enum error journal_sync_folder(const char *folder) MUST_CHECK;

/* ---- journal.c ---------------------------------------------------------- */

enum error journal_bytes_reserve(struct journal_bytes *bytes, size_t more) MUST_CHECK;
/* Encodes an entry into memory that is reserved; returns its record, not sealed. */
uint8_t *journal_bytes_add(struct journal_bytes *bytes, const struct entry *entry,
                           size_t *ret_entry_bytes);
void journal_bytes_release(struct journal_bytes *bytes);
/* LSN up to which entries are as durable as promised. The mutex is held. */
static inline uint64_t journal_kept(const struct journal *journal)
{
    return journal->durability == DURABILITY_FSYNC ? journal->synced : journal->written;
}

/* Makes every change of the condition; the mutex is held, or no other thread knows the journal
 * yet. */
void journal_turn(struct journal *journal, enum journal_condition next);
/* Is so little room left that the committer should grow the file ahead of need? The mutex is
 * held. */
bool journal_wants_room(const struct journal *journal);
/* Turns to FULL or FAILING because of `error`, unless the condition is worse already; logs the
 * start of a failure. */
void journal_note_failure(struct journal *journal, enum error error, enum journal_condition next);
/* Ends FULL or FAILING. */
void journal_note_success(struct journal *journal);
/* Writes the watermark without syncing it. The file must not be replaced meanwhile. If it fails,
 * the previous watermark remains, which claims less and is still true. */
enum error journal_write_watermark(struct journal *journal, uint64_t whole, uint64_t length,
                                   bool closed);

/* ---- journal_map.c ------------------------------------------------------ */

/* From now on a store between the two calls below cannot end the process: if the file is cut, or
 * its disk has no room for the page, the map becomes memory, and `map_lost` is set. */
void journal_map_install(void);
void journal_map_begin(struct journal *journal);
void journal_map_end(void);

/* ---- journal_waiters.c -------------------------------------------------- */

/* Takes all waiters that are not in a commit yet. The mutex is held. */
struct journal_waiter *journal_take_waiters(struct journal *journal);
/* Calls ready() of each, which returns the storage to its owner. The mutex is not held. */
void journal_answer(struct journal_waiter *waiters, enum error error);
/* Ends `group`; its memory is reused for the next one but one. The mutex is held. */
void journal_retire_group(struct journal *journal);
/* Turns to FAILING because of `error`, and undoes the waiters' changes in memory before anybody
 * else sees that; then in the file; then answers them with the error. Committer's thread; the mutex
 * is held before and after, but not meanwhile. */
void journal_fail(struct journal *journal, enum error error);
/* Returns when no other thread reads or writes the file, before it is replaced. No commit is in
 * progress, and the mutex is not held. */
void journal_await_undo(struct journal *journal);

/* ---- journal_rewrite.c -------------------------------------------------- */

/* Is a compaction in progress, or due? The mutex is held. */
bool journal_wants_rewrite(const struct journal *journal);
/* Does one piece: about 100 us of work, plus disk time. Committer's thread. Does not write to a
 * folder that another server took over (state_confirm()). On failure the compaction is abandoned,
 * and starts again later (JOURNAL_REWRITE_RETRY_MS); a file that cannot be read back is a failure
 * of the journal (journal_fail()).
 *
 * `yield` is called between pieces of a phase that cannot be suspended: it commits what is pending,
 * then yields for as long as the last piece took. ERROR_CANCELLED: abandon the compaction (shutdown
 * or disk failure). */
void journal_rewrite_step(struct journal *journal, enum error (*yield)(struct journal *));
/* The whole compaction at once, from the owner's memory: the old file is not read, unless the
 * ledgers are ahead of it (journal_read_back()). No entry may be appended meanwhile (failing), or
 * the owner's thread is the only one. */
enum error journal_rewrite_whole(struct journal *journal) MUST_CHECK;
/* Abandons a compaction in progress. The mutex is not held. */
void journal_rewrite_abandon(struct journal *journal);

/* ---- journal_reread.c --------------------------------------------------- */

enum error journal_reread_begin(struct journal *journal, struct journal_reread *reread) MUST_CHECK;
/* Continues reading up to offset `end`, about `most` bytes. ERROR_INPUT, ERROR_IO: the file is not
 * what was written. */
enum error journal_reread_some(struct journal *journal, struct journal_reread *reread, uint64_t end,
                               uint64_t most) MUST_CHECK;
void journal_reread_release(struct journal *journal, struct journal_reread *reread);
/* If the ledgers are ahead: reverts what undo() could not, by reading the file up to
 * journal_kept(). On failure they stay ahead. Committer's thread; the mutex is not held. */
enum error journal_read_back(struct journal *journal) MUST_CHECK;

#endif
