/* What the journal's files share. Private to journal*.c. */
#ifndef SAMPLER_JOURNAL_PRIVATE_H
#define SAMPLER_JOURNAL_PRIVATE_H

#include "common/buffer.h"
#include "sampler/journal.h"
#include "sampler/journal_frame.h"

/* Room is taken in steps of a quarter of the file, within these. */
#define JOURNAL_STEP_LEAST_BYTES ((uint64_t)64 << 10)
#define JOURNAL_STEP_MOST_BYTES ((uint64_t)1 << 20)
/* Written anew when it is longer than this, and than twice what it would be then. */
#define JOURNAL_LONG_BYTES ((uint64_t)16 << 20)
#define JOURNAL_RETRY_MS 250
/* The mark is written again so often while it is behind (DURABILITY_FSYNC). */
#define JOURNAL_MARK_MS 50

/* One file of the journal: the one in use, or the next one beside it. */
struct journal_file {
    int descriptor;   /* -1: none */
    const char *path; /* borrowed */
    int64_t shift;    /* LSN - offset */
    uint64_t room;    /* bytes of the file that are its own on the disk */
    uint64_t length;  /* of the file: at least `room` */
    uint8_t *map;     /* [room], or NULL: written with pwrite() */
};

/* Entries as frames in memory. */
struct journal_bytes {
    uint8_t *bytes; /* owned */
    size_t length;
    size_t capacity;
};

/* The journal is being written anew, a piece at a time. */
struct journal_rewrite {
    bool active;
    struct journal_file file;  /* named aside */
    struct journal_bytes book; /* frames of all there was at LSN `start`, not sealed yet */
    size_t book_written;
    size_t book_sealed;
    uint64_t start;           /* LSN */
    uint64_t copied;          /* LSN up to which the old file's frames are in the new one */
    struct journal_mark mark; /* that the new file has */
};

struct journal {
    struct journal_owner owner;
    enum durability durability;
    bool maps; /* the file system takes a mapping */
    bool is_new;
    bool torn, lost; /* as it was found (journal_frame.h) */
    uint64_t accept_loss;
    bool dormant; /* DURABILITY_NONE, or not begun: what is appended is not written */
    char *folder; /* owned, and the two below */
    char *path;
    char *new_path;
    uint64_t id;

    struct journal_file file;
    uint64_t end;               /* LSN behind the last entry */
    uint64_t written;           /* LSN up to which the file has them */
    uint64_t synced;            /* LSN up to which the disk has them */
    uint64_t synced_room;       /* of file.room, what the disk has */
    struct journal_mark marked; /* the last one that was written */
    int64_t marked_ns;
    uint64_t rewrite_at;          /* LSN: long enough to be written anew */
    struct journal_bytes pending; /* DURABILITY_FSYNC: frames from `written` to `end` */
    struct journal_bytes spare;   /* the other one of two */
    struct journal_rewrite rewrite;

    pthread_cond_t changed;
    bool sleeps; /* journal_work() waits for `changed` */
    bool woken;
    struct journal_waiter *waiters; /* in the order in which they came */
    struct journal_waiter **waiters_end;
    size_t waiting;       /* how many these are */
    size_t target;        /* wake the committer when so many wait */
    size_t told;          /* how many the last commits told: about so many come again */
    int64_t sync_mean_ns; /* of the last ones */

    bool finished;    /* the orderly end: nothing is appended any more */
    bool failing;     /* a write failed: nothing is appended until the journal is written anew */
    int64_t retry_ns; /* while one of the two holds: when to try again */
    bool full;        /* there was no room; what is there is fine */
    struct error_report failure;
    struct journal_counts counts;
};

/* ---- journal_file.c ----------------------------------------------------------------------------
 */

/* Creates PATH (borrowed) for a journal; what is there is replaced. */
enum error journal_file_create(struct journal_file *file, const char *path) MUST_CHECK;
enum error journal_file_open(struct journal_file *file, const char *path) MUST_CHECK;
void journal_file_close(struct journal_file *file);
/* A file that is there: its room is what it has up to its end, on the disk and mapped when `maps`.
 * ERROR_NO_SPACE: it has only `used` bytes of room. */
enum error journal_file_take(struct journal_file *file, uint64_t used, bool maps) MUST_CHECK;
/* Zeros from there to its end. */
enum error journal_file_clear(const struct journal_file *file, uint64_t begin) MUST_CHECK;
/* At least `bytes` of the file are its own afterwards, zeros behind what was there; a mapping of
 * them when `maps`. */
enum error journal_file_grow(struct journal_file *file, uint64_t bytes, bool maps) MUST_CHECK;
enum error journal_file_write(const struct journal_file *file, const void *bytes, size_t length,
                              uint64_t offset) MUST_CHECK;
enum error journal_file_sync(const struct journal_file *file) MUST_CHECK;
/* Can files in this folder be mapped and shared with the disk? */
bool journal_folder_maps(const char *folder);
enum error journal_sync_folder(const char *folder) MUST_CHECK;
char *journal_path(const char *folder, const char *name);

/* ---- journal.c ---------------------------------------------------------------------------------
 */

enum error journal_bytes_reserve(struct journal_bytes *bytes, size_t more) MUST_CHECK;
/* Takes what is needed for the frame of an entry and encodes it; returns the frame, not sealed. */
uint8_t *journal_bytes_add(struct journal_bytes *bytes, const struct entry *entry,
                           size_t *ret_entry_bytes);
void journal_bytes_release(struct journal_bytes *bytes);
/* Logs it the first time; the mutex is held. */
void journal_note_failure(struct journal *journal, enum error error, bool failing);
void journal_note_success(struct journal *journal);
/* Writes the mark, not to the disk yet. Nobody else may replace the file meanwhile. When it fails
 * the one before stays, which says less, and is as true. */
enum error journal_mark(struct journal *journal, uint64_t whole, uint64_t length, bool closed);

/* ---- journal_rewrite.c -------------------------------------------------------------------------
 */

/* Is it long enough? The mutex is held. */
bool journal_wants_rewrite(const struct journal *journal);
/* One piece of it; the last one puts the new file in the old one's place. Committer's thread. */
enum error journal_rewrite_step(struct journal *journal) MUST_CHECK;
/* All of it at once, from the owner's memory: nothing of the old file is read. No entry may be
 * appended meanwhile (failing), or the owner's thread is the only one. */
enum error journal_rewrite_whole(struct journal *journal) MUST_CHECK;
void journal_rewrite_abandon(struct journal *journal);

#endif
