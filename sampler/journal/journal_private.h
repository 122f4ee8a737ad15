/* SPDX-License-Identifier: MIT */
/* What the journal's files share. Private to journal*.c. */
#ifndef SAMPLER_JOURNAL_JOURNAL_PRIVATE_H
#define SAMPLER_JOURNAL_JOURNAL_PRIVATE_H

#include "common/buffer.h"
#include "sampler/journal/journal.h"
#include "sampler/journal/journal_record.h"

#define JOURNAL_PAGE_BYTES 4096
/* Room is taken in steps of a quarter of the file, within these. */
#define JOURNAL_STEP_LEAST_BYTES ((uint64_t)64 << 10)
#define JOURNAL_STEP_MOST_BYTES ((uint64_t)1 << 20)
/* Compacted when it is this much longer than twice what its ledgers took last time. */
#define JOURNAL_LONG_BYTES ((uint64_t)16 << 20)
#define JOURNAL_RETRY_MS 250
/* How often the watermark is written while it is behind (DURABILITY_FSYNC). */
#define JOURNAL_WATERMARK_MS 50
/* Who waits for a disk that does not answer is refused after so long: below what clients and
 * proxies have patience for, above what a disk takes that only is busy. Being wrong costs a 503. */
#define JOURNAL_PATIENCE_MS 5000
/* Entries from so many bytes on wait in memory for the committer, which touches new pages of the
 * file without the mutex. */
#define JOURNAL_LARGE_BYTES ((size_t)64 << 10)
/* For what is refused to go from the file, before it is answered all the same. */
#define JOURNAL_UNDO_MS 1000

/* One file of the journal: the one in use, or the next one beside it. */
struct journal_file {
    int descriptor;   /* -1: none */
    const char *path; /* borrowed */
    int64_t shift;    /* LSN - offset */
    uint64_t room;    /* bytes of the file that are its own on the disk, and mapped */
    uint64_t ready;   /* bytes that are its own, at least `room` */
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

/* The file in use, read again into ledgers of its own, a piece at a time. */
struct journal_reread {
    void *ledgers; /* owned; NULL: none */
    uint64_t at;   /* offset up to which its entries are in them */
    struct journal_bytes window;
    struct entry_numbers numbers;
};

/*
 * The journal as a whole. Only journal_turn() changes it, under the mutex, and asserts these moves:
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
    JOURNAL_TORN,    /* read up to a torn last record: it goes with the file */
    JOURNAL_LOST,    /* read up to damage that was accepted: journal_begin() writes a new file */
    JOURNAL_MEMORY,  /* DURABILITY_NONE: entries are not written before the orderly end */
    JOURNAL_RUNNING, /* entries are kept as the durability says */
    JOURNAL_FULL,    /* nothing more fits; what is in the file is sound */
    JOURNAL_FAILING, /* changes are refused until the file is replaced */
    JOURNAL_FINISHED /* the orderly end: nothing is appended any more */
};

/* Compaction, a piece at a time. journal_rewrite_step() goes from each phase to the next one,
 * journal_rewrite_abandon() back to REWRITE_NONE; committer's thread. */
enum rewrite_phase {
    REWRITE_NONE,   /* none is under way; it begins at an LSN, `start` */
    REWRITE_READ,   /* the file up to `start` into ledgers of its own */
    REWRITE_LIST,   /* they become entries, and are freed */
    REWRITE_WRITE,  /* these into the new file */
    REWRITE_COPY,   /* and what was appended since */
    REWRITE_SETTLE, /* all of it onto the disk */
    REWRITE_SWITCH, /* the last entries; the name */
    REWRITE_DISPOSE /* the old file goes */
};

struct journal_rewrite {
    enum rewrite_phase phase;
    int64_t worked_ns; /* when it last began with a piece */
    enum error (*yield)(struct journal *);
    struct journal_reread reread;
    struct journal_file file;     /* named aside; when it is switched, the old one */
    struct journal_bytes records; /* of all there was at LSN `start`; sealed as they are written */
    size_t records_written;
    uint64_t piece_bytes; /* of what is copied at once */
    uint64_t start;       /* LSN */
    uint64_t copied;      /* LSN up to which the old file's records are in the new one */
    struct journal_watermark watermark; /* that the new file has */
};

struct journal {
    struct journal_owner owner;
    enum durability durability;
    bool maps; /* the file system takes a mapping */
    enum journal_condition condition;
    uint64_t accept_loss;
    const struct state *state; /* borrowed: the folder is ours as long as state_confirm() says so */
    char *folder;              /* owned, and the two below */
    char *path;
    char *new_path;
    uint64_t id;

    struct journal_file file;
    uint64_t end;                       /* LSN behind the last entry */
    uint64_t written;                   /* LSN up to which the file has them */
    uint64_t synced;                    /* LSN up to which the disk has them */
    uint64_t synced_room;               /* of file.room, what the disk has */
    struct journal_watermark watermark; /* the last one that was written */
    int64_t watermark_ns;
    uint64_t rewrite_at;          /* LSN: long enough to be compacted */
    bool into_map;                /* there is room for what is appended next: in the file's map */
    struct journal_bytes pending; /* records behind those of the file and of `group`, up to `end` */
    struct journal_bytes group;   /* records from `written` on, that are being written */
    struct journal_bytes spare;   /* the memory that neither has */
    struct journal_rewrite rewrite;
    bool switches; /* the file is about to be another one: nothing goes into its map */

    uint64_t wanted;                    /* bytes of the file that somebody waits for */
    pthread_cond_t grown;               /* there is more room, or it could not be had */
    int64_t growth_ns;                  /* when the committer may try to grow it ahead again */
    struct error_report growth_failure; /* of the last try; or OK */

    pthread_cond_t changed;
    bool sleeps; /* journal_work() waits for `changed` */
    bool woken;
    struct journal_waiter *waiters; /* in the order in which they came */
    struct journal_waiter **waiters_end;
    struct journal_waiter *committing; /* those who wait for `group`, and before it */
    struct journal_waiter *refused;    /* what they asked for is undone; they are to hear of it */
    size_t waiting;                    /* how many `waiters` are */
    size_t target;                     /* wake the committer when so many wait */
    size_t answered;                   /* by the last commit: about so many come again */
    int64_t sync_mean_ns;              /* of the last ones */

    uint64_t answers;         /* how often those who waited were answered */
    uint64_t watched_answers; /* journal_watch(): as of then, nobody who waits was answered */
    int64_t watched_ns;
    struct errand *undoing; /* what is refused goes from the file; NULL: nothing, or not that way */

    int64_t retry_ns; /* FULL, FAILING: when to try again */
    bool is_ahead;    /* FAILING: the ledgers say what was not kept; journal_read_back() */
    struct error_report failure;
    struct journal_counts counts;
};

/* ---- journal_file.c ----------------------------------------------------- */

/* Is PATH free, or a part of a journal that one of ours left? ERROR_INPUT: it is something else. */
enum error journal_file_check_left(const char *path) MUST_CHECK;
/* Creates PATH (borrowed) for a journal; removes a leftover of ours, any other file is an error. */
enum error journal_file_create(struct journal_file *file, const char *path) MUST_CHECK;
/* Never through a symbolic link; ERROR_INPUT: it is not a regular file. */
enum error journal_file_open(struct journal_file *file, const char *path) MUST_CHECK;
void journal_file_close(struct journal_file *file);
/* Nobody knows the file any more: gives back at most `most` bytes of it. False: there are none. */
bool journal_file_dispose(struct journal_file *file, uint64_t most);
/* At least `bytes` of the file are its own afterwards, zeros behind what was there: they are
 * `ready`. Takes the disk's time. */
enum error journal_file_prepare(struct journal_file *file, uint64_t bytes, bool maps) MUST_CHECK;
/* The same, and they are room, with a mapping of them when `maps`. Fast where they are ready. */
enum error journal_file_grow(struct journal_file *file, uint64_t bytes, bool maps) MUST_CHECK;
/* By how much a file of so many bytes grows. */
uint64_t journal_file_step(uint64_t bytes);
enum error journal_file_write(const struct journal_file *file, const void *bytes, size_t length,
                              uint64_t offset) MUST_CHECK;
enum error journal_file_sync(const struct journal_file *file) MUST_CHECK;
/* How many of these two came back, of all files: does whoever wants to end still get on? */
uint64_t journal_file_calls(void);
/* What was written from there on goes to the disk, but for what says where it is: a
 * journal_file_sync() that comes is short. */
enum error journal_file_push(const struct journal_file *file, uint64_t begin) MUST_CHECK;
enum error journal_sync_folder(const char *folder) MUST_CHECK;

/* ---- journal.c ---------------------------------------------------------- */

enum error journal_bytes_reserve(struct journal_bytes *bytes, size_t more) MUST_CHECK;
/* Takes memory for the record of an entry and encodes it; returns the record, not sealed. */
uint8_t *journal_bytes_add(struct journal_bytes *bytes, const struct entry *entry,
                           size_t *ret_entry_bytes);
void journal_bytes_release(struct journal_bytes *bytes);
/* LSN up to which entries are where the durability wants them. The mutex is held. */
static inline uint64_t journal_kept(const struct journal *journal)
{
    return journal->durability == DURABILITY_FSYNC ? journal->synced : journal->written;
}

/* Every change of the condition; the mutex is held, or nobody else knows the journal yet. */
void journal_turn(struct journal *journal, enum journal_condition next);
/* Is little room left, so that the committer is to make more before it is needed? The mutex is
 * held. */
bool journal_wants_room(const struct journal *journal);
/* To FULL or FAILING because of `error`, unless it is worse already; logs it when it begins. */
void journal_note_failure(struct journal *journal, enum error error, enum journal_condition next);
/* FULL or FAILING is over. */
void journal_note_success(struct journal *journal);
/* Writes the watermark, not to the disk yet. Nobody else may replace the file meanwhile. When it
 * fails the one before stays, which says less, and is as true. */
enum error journal_write_watermark(struct journal *journal, uint64_t whole, uint64_t length,
                                   bool closed);

/* ---- journal_waiters.c -------------------------------------------------- */

/* All who wait and are not in a commit yet. The mutex is held. */
struct journal_waiter *journal_take_waiters(struct journal *journal);
/* Calls their ready(), which gives the storage back. The mutex is not held. */
void journal_answer(struct journal_waiter *waiters, enum error error);
/* `group` is over; its memory serves the next one but one. The mutex is held. */
void journal_retire_group(struct journal *journal);
/* After journal_note_failure(): undoes what those who wait asked for, in memory and in the file;
 * then they hear why. Committer's thread; the mutex is held before and after, but not meanwhile. */
void journal_refuse_waiters(struct journal *journal);
/* Returns when nobody reads or writes the file beside the committer, before it is another one. No
 * commit is under way, and the mutex is not held. */
void journal_await_undo(struct journal *journal);

/* ---- journal_rewrite.c -------------------------------------------------- */

/* Is it under way, or long enough? The mutex is held. */
bool journal_wants_rewrite(const struct journal *journal);
/* A folder that is another's by now is not written to (state_confirm()).
 *
 * One piece of it, some 100 us of work and what the disk takes. Committer's thread. On failure all
 * of it is given up, and begins again when the journal has grown on; a file that cannot be read
 * back is a failure of the journal's (journal_note_failure()).
 *
 * `yield` is called between pieces of a phase that cannot be left and entered again: commits what
 * is pending, then yields for as long as the last piece took. ERROR_CANCELLED: abandon the
 * compaction (shutdown or disk failure). */
void journal_rewrite_step(struct journal *journal, enum error (*yield)(struct journal *));
/* All of it at once, from the owner's memory: nothing of the old file is read, unless the ledgers
 * are ahead of it (journal_read_back()). No entry may be appended meanwhile (failing), or the
 * owner's thread is the only one. */
enum error journal_rewrite_whole(struct journal *journal) MUST_CHECK;
/* Gives it up, if it is under way. The mutex is not held. */
void journal_rewrite_abandon(struct journal *journal);

/* ---- journal_reread.c --------------------------------------------------- */

enum error journal_reread_begin(struct journal *journal, struct journal_reread *reread) MUST_CHECK;
/* Reads on up to offset `end` at most, some `most` bytes. ERROR_INPUT, ERROR_IO: the file is not
 * what was written. */
enum error journal_reread_some(struct journal *journal, struct journal_reread *reread, uint64_t end,
                               uint64_t most) MUST_CHECK;
void journal_reread_release(struct journal *journal, struct journal_reread *reread);
/* If the ledgers are ahead: what undo() could not undo is taken back from the file, read up to
 * `synced`. On failure they stay ahead. Committer's thread; the mutex is not held. */
enum error journal_read_back(struct journal *journal) MUST_CHECK;

#endif
