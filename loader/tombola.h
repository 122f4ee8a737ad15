/* SPDX-License-Identifier: MIT */
/*
 * libtombola: batches of training rows, drawn by a Tombola sampler and fetched from a store, ready
 * in memory (or on the GPU) ahead of the training.
 *
 * NAME
 *   tombola - feed of training batches
 *
 * SYNOPSIS
 *   #include <tombola.h>
 *   cc program.c $(pkg-config --cflags --libs tombola)
 *
 *   struct tombola_options options = {0};
 *   struct tombola_feed *feed;
 *   const struct tombola_batch *batch;
 *   int status;
 *
 *   options.struct_bytes = sizeof(options);
 *   options.sampler_url = "http://127.0.0.1:8080";
 *   options.store_uri = "sqlite:/data/train.db";
 *   options.batch_rows = 100;
 *   if (tombola_feed_open(&options, &feed) != TOMBOLA_OK)
 *       errx(1, "%s", tombola_error_message());
 *   while ((status = tombola_feed_next(feed, NULL, TOMBOLA_FOREVER, &batch)) == TOMBOLA_OK) {
 *       train(batch->features, batch->labels, batch->rows);
 *       tombola_feed_put(feed, NULL, batch);
 *   }
 *   if (status != TOMBOLA_END)
 *       errx(1, "%s", tombola_error_message());
 *   tombola_feed_close(feed);
 *
 * DESCRIPTION
 *   A feed owns a ring of slots, all allocated (page-locked, where there is a GPU) by
 *   tombola_feed_open(). Threads of its own pull batches of ids from the sampler, fetch their rows
 *   from the store and copy them to the device. tombola_feed_next() hands out the next slot,
 *   without a copy; tombola_feed_put() gives it back. Batches come in the sampler's order,
 *   whatever the threads do.
 *
 *   Batches are lent (TOMBOLA_LEASE): several programs share the sampler's stream, and a batch
 *   counts as trained when it is put back. What was lent to a program that is gone, or was dropped
 *   (tombola_feed_drop()), is lent to another one; a thread renews the leases meanwhile. Of a
 *   stream with few batches left a feed leases only a share ahead, so that all programs end at
 *   about the same time. With TOMBOLA_INDEX nothing moves: batch number K is requested by its
 *   number, so that a program that remembers K can continue exactly where it was, as often as it
 *   likes; ranks divide the numbers.
 *   Plain draws (TOMBOLA_DRAW) count as trained when they are answered.
 *
 *   ON A GPU features are in device memory. `stream` is the cudaStream_t on which the caller works
 *   (NULL: CUDA's default stream): tombola_feed_next() makes it wait for the copy, and a slot that
 *   was put back, its ids and labels too, is not written before all that was in `stream` at
 *   tombola_feed_put() is done. Neither call blocks the thread for that. On the CPU `stream` is
 *   ignored.
 *
 * THREADS
 *   A feed belongs to one thread at a time; tombola_feed_put(), tombola_feed_drop(),
 *   tombola_feed_settle(), tombola_batch_copy(), tombola_feed_interrupt() and tombola_feed_stats()
 *   come from any. Feeds are independent of each other. The error message is per thread. A feed is
 *   that of the process which opened it: in a child that fork() made, every call for it is
 *   TOMBOLA_USAGE, tombola_feed_close() leaves it to the parent, and a feed of the child's own
 *   works. The GPU that CUDA has chosen for the calling thread stays what it was.
 *
 * ERRORS
 *   Functions that can fail return TOMBOLA_OK or a negative enum tombola_status;
 *   tombola_error_message() then says what was met, where, and what would have been right. Outputs
 *   are set only on success. Warnings go to standard error (tombola_log_level()). A feed or an
 *   output that is NULL, a batch that is not out or is another feed's, are TOMBOLA_USAGE and change
 *   nothing.
 *
 * ENVIRONMENT
 *   TOMBOLA_TOKEN, when set, is sent to the sampler as a bearer token, unless the options have one.
 *   TOMBOLA_CA, when set, is the PEM file of those who may have signed the certificate of a sampler
 *   at https://, in place of the system's, unless the options name one.
 */
#ifndef TOMBOLA_H
#define TOMBOLA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TOMBOLA_API __attribute__((visibility("default")))
#else
#define TOMBOLA_API
#endif

enum tombola_status {
    TOMBOLA_OK = 0,
    TOMBOLA_USAGE = -1,        /* an option is wrong, or a call comes at the wrong time */
    TOMBOLA_INPUT = -2,        /* a file or an answer is malformed or damaged */
    TOMBOLA_NOT_FOUND = -3,    /* a file, row, stream or table does not exist */
    TOMBOLA_CONFLICT = -4,     /* the sampler's stream is paused, or another one than it was */
    TOMBOLA_IO = -5,           /* the system refused a read or a write */
    TOMBOLA_NO_SPACE = -6,     /* disk or quota is full */
    TOMBOLA_MEMORY = -7,       /* allocation failed */
    TOMBOLA_NETWORK = -8,      /* the sampler is gone, refuses, or is no sampler */
    TOMBOLA_TIMEOUT = -9,      /* it was silent or busy for longer than patience_ms */
    TOMBOLA_UNAVAILABLE = -10, /* no such device on this machine, or in this build */
    TOMBOLA_CANCELLED = -11,   /* stopped or interrupted from outside */
    TOMBOLA_END = -12,         /* the stream has ended; not a failure */
    TOMBOLA_NOT_YET = -13      /* the time given to tombola_feed_next() is over; not a failure */
};

enum tombola_pull { TOMBOLA_LEASE = 0, TOMBOLA_INDEX = 1, TOMBOLA_DRAW = 2 };

enum tombola_bad_rows {
    TOMBOLA_BAD_ROWS_FAIL = 0,   /* tombola_feed_next() fails, naming file, row and column */
    TOMBOLA_BAD_ROWS_SKIP = 1,   /* the row is left out of its batch; counted */
    TOMBOLA_BAD_ROWS_REPLACE = 2 /* the row is zeros, its label 0; counted */
};

enum tombola_element { TOMBOLA_U8 = 0, TOMBOLA_F32 = 1, TOMBOLA_I32 = 2 };

/* Rows of a store whose URI has longest=any or longest=N, or that was imported from one, differ in
 * length. */
enum tombola_lengths {
    TOMBOLA_LENGTHS_ALIKE = 0,  /* all rows have `features` features */
    TOMBOLA_LENGTHS_VARY = 1,   /* a batch is as wide as its longest row */
    TOMBOLA_LENGTHS_LIMITED = 2 /* a batch is N wide */
};

enum tombola_label_kind {
    TOMBOLA_LABEL_NONE = 0,    /* the store has no labels: all are 0 */
    TOMBOLA_LABEL_INTEGER = 1, /* exact up to 2^53 */
    TOMBOLA_LABEL_REAL = 2,
    TOMBOLA_LABEL_TEXT = 3 /* numbers into label_texts */
};

/* What `device_labels` of a batch are. */
enum tombola_labels {
    TOMBOLA_LABELS_HOST = 0, /* none: labels are on the host alone */
    TOMBOLA_LABELS_F64 = 1,
    TOMBOLA_LABELS_I64 = 2, /* TOMBOLA_USAGE where the store's are real numbers */
    TOMBOLA_LABELS_F32 = 3,
    TOMBOLA_LABELS_BY_KIND = 4, /* of an option: F64 for real numbers, else I64 */
    /* [rows, classes], 0 but for a 1 at the label's code: of texts their number, of integers they
     * themselves, from 0 on. TOMBOLA_USAGE where labels are no codes: real or negative numbers. */
    TOMBOLA_LABELS_ONE_HOT_F32 = 5,
    TOMBOLA_LABELS_ONE_HOT_U8 = 6
};

/* What `weights` of a batch are. */
enum tombola_weights { TOMBOLA_WEIGHTS_NONE = 0, TOMBOLA_WEIGHTS_F32 = 1, TOMBOLA_WEIGHTS_F64 = 2 };

#define TOMBOLA_NO_CACHE SIZE_MAX
#define TOMBOLA_NOT_RESIDENT SIZE_MAX

/* Zero is the default of every member but the first three. Texts are copied. */
struct tombola_options {
    size_t struct_bytes;     /* sizeof(struct tombola_options) */
    const char *sampler_url; /* "http://host:port" */
    const char *store_uri;   /* "csv:PATH?label=0&header=no", "sqlite:PATH", ...; a path will do */
    size_t batch_rows;       /* 0: 100 */
    const char *device;      /* "cpu", "cuda", "cuda:1", "auto"; NULL: "cpu" */
    const char *stream;      /* the sampler's stream; NULL: "default" */
    int pull;                /* enum tombola_pull */
    int bad_rows;            /* enum tombola_bad_rows */
    int64_t first_index;     /* TOMBOLA_INDEX: the first batch's number */
    int64_t batches;         /* end after so many; 0: when the stream ends */
    int expand;              /* 1: bytes become floats, times `scale`; 0: features as stored, as
                              * TOMBOLA_I32 (element=i32 in the URI) always are */
    float scale;             /* 0: 1/255 */
    size_t
        slots; /* as many batches may be out; 0: 8, up to 16 for leases and 64 by index, of which,
                   * where bytes become floats on a CPU, as many may be out as stay in its cache, 4
                   * at least; 3 to 8 of large batches, as many as take 256 MiB */
    size_t fetchers;    /* threads that fetch; 0: 1 */
    size_t cache_bytes; /* memory for rows: all, or as many as fit, are read into it while the first
                         * batches come; 0: half of what is free on the machine or in the container,
                         * less where that gets scarce; TOMBOLA_NO_CACHE: none */
    int64_t patience_ms; /* give up when the sampler has not answered for this long; 0: a minute;
                          * < 0: never */
    int trust_labels;    /* 1: the store's labels are not compared with those the sampler says */
    /* TOMBOLA_INDEX: `world` feeds divide a stream, all with the same first_index, and this is
     * number `rank`, 0 to world - 1: batches go to the ranks in turn, and all ranks get equally
     * many. Those at the stream's end that are too few for all are left out, with a warning, unless
     * `pad` is 1: the stream's first ones then fill the round up. world 0: 1. */
    int64_t rank, world;
    int pad;
    const char *state; /* TOMBOLA_INDEX: go on from there (tombola_feed_state()); NULL: begin */
    /* TOMBOLA_LEASE: 1 to 128 of [A-Za-z0-9._:-], of no other program that runs; NULL: a name of
     * its own. The sampler's page and metrics show it. */
    const char *worker;
    const char *token;     /* for the sampler, as a bearer token; NULL: TOMBOLA_TOKEN */
    const char *authority; /* https://: the PEM file of those who may have signed the sampler's
                            * certificate; NULL: TOMBOLA_CA */
    int labels;            /* enum tombola_labels */
    /* Features become (x - mean) / deviation, as floats, where bytes were multiplied by `scale`. A
     * row is `channels` runs of equally many features, each with one mean and deviation: 1 for all
     * alike, 3 for images of three colours one behind the other, or as many as there are features.
     * 0: features stay as they are, as TOMBOLA_I32 always do. Read by tombola_feed_open() alone. */
    size_t channels;
    const float *mean;      /* [channels]; NULL: 0 */
    const float *deviation; /* [channels], above 0; NULL: 1 */
    /* Memory of the device for rows that stay there, as they are stored: each is copied once, later
     * batches are gathered by their numbers. 0: on a GPU all rows, if they take no more than a half
     * of the memory that is left there, else none, and none on the CPU; n: as many as fit;
     * TOMBOLA_NOT_RESIDENT: none. */
    size_t resident_bytes;
    /* Rows are kept in a file of this folder, which other programs on the machine and later ones
     * read, too; it is made while the first batches come, and is never more than a copy: whatever
     * is wrong with it, rows come from the store, and a warning names it. Memory for rows, which
     * these programs would not share, is then only taken where cache_bytes says how much. NULL:
     * TOMBOLA_CACHE; "": none. */
    const char *cache_dir;
    uint64_t cache_limit; /* bytes of all files there; those not used for the longest time make
                           * room. 0: TOMBOLA_CACHE_LIMIT, else until a twentieth of the disk is
                           * left */
    /* Of a store whose URI names such a column (weight=NAME, group=NAME), or that was imported from
     * one: batches say each row's weight, as enum tombola_weights, and with `groups` 1 its group.
     * Opening then reads the keys of all rows, and keeps 8 bytes a row for weights, 4 for groups,
     * and up to 19 for ids that are not consecutive. */
    int weights;
    int groups;
    const char *recipe; /* what missing values and text categories become, of another feed's
                         * description; NULL: what the URI asks for (missing=, onehot=) is learnt
                         * from the store itself */
    /* Of one-hot labels. 0: as many as there are texts, or the largest integer and one, for which
     * opening reads the keys of all rows. A label that is no code of so many ends the feed with
     * TOMBOLA_INPUT at its batch. Of rows replaced by zeros it is code 0, as their label. */
    size_t classes;
    /* TOMBOLA_INDEX, of a store whose rows differ in length: within each window of so many batches
     * of an epoch, rows are sorted by length and cut into batches of similar length, which come in
     * an order that the stream's seed and the window decide. So batches have fewer zeros, each row
     * still comes once an epoch, ranks and `state` work as ever (of the same window), and batch
     * number K holds the same rows each time. 0: batches as the sampler cuts them. */
    size_t bucket_window;
    /* TOMBOLA_INDEX: `parts` feeds divide the batches of this rank, and this is number `part`, 0 to
     * parts - 1, as a DataLoader's workers are. Together they take what the rank takes: no more is
     * left out. parts 0: 1. */
    int64_t part, parts;
};

struct tombola_batch {
    size_t rows;          /* may be less than batch_rows: at an epoch's end, or bad rows skipped */
    const int64_t *ids;   /* [rows] in host memory */
    const double *labels; /* [rows] in host memory */
    const void *features; /* [rows, width] in the device's memory */
    int64_t epoch, first; /* the batch's epoch, and its first unit's position in the order */
    int64_t index;        /* TOMBOLA_INDEX: the batch's number; else counted from 0 */
    int64_t seq;          /* TOMBOLA_LEASE: the worker's number for it */
    int64_t attempt;      /* TOMBOLA_LEASE: above 1 it was lent before, and redelivered; else 0 */
    const void *device_labels; /* [rows], one-hot [rows, classes], in the device's memory, of enum
                                * tombola_labels as the description says; NULL:
                                * TOMBOLA_LABELS_HOST */
    const void *weights; /* [rows] in host memory, of enum tombola_weights as was asked; NULL: none
                            * were. Of rows replaced by zeros 0, as their groups */
    const int64_t *groups; /* [rows] in host memory: where all are integers of 64 bits those, else
                            * numbers into group_texts; NULL: they were not asked for */
    const void *device_weights, *device_groups; /* the same in the device's memory */
    size_t width;           /* features of a row in `features`: the description's, but where rows
                             * differ in length those of the longest row of this batch, or what
                             * longest= in the URI allows */
    const int64_t *lengths; /* [rows] in host memory: how many of them are the row's; zeros stand
                             * behind. NULL: rows do not differ in length. Of rows replaced by zeros
                             * 0 */
    const int64_t *device_lengths; /* the same in the device's memory */
    int64_t
        round_epoch; /* TOMBOLA_INDEX: the epoch of the batch that rank 0 takes in this step, the
                          * same for all ranks: who ends an epoch where it changes, ends it after
                          * equally many steps. `epoch` without ranks, and of designs whose batches
                          * are cut by what is drawn, such as bernoulli */
};

/* Borrowed until tombola_feed_close(). */
struct tombola_description {
    int64_t rows;       /* of the store */
    size_t features;    /* a row */
    int element;        /* enum tombola_element, as batches have them */
    int label_kind;     /* enum tombola_label_kind */
    int device_is_cuda; /* features are in the memory of GPU device_index */
    int device_index;
    const char *device;               /* "CPU", "NVIDIA H200, 139 GiB, driver 13.0" */
    const char *const *feature_names; /* [features]; NULL: they have none */
    const char *const *label_texts;   /* [label_text_count] */
    size_t label_text_count;
    size_t slots;         /* as many batches may be out */
    int labels;           /* enum tombola_labels, of device_labels */
    size_t dimensions;    /* of a row as its store has it (IDX: 28 x 28), in C order; at least 1 */
    const int64_t *shape; /* [dimensions] */
    int weights;          /* enum tombola_weights, of weights */
    int groups;           /* 1: batches have groups, */
    const char *const *group_texts; /* which are numbers into this list, [group_text_count], sorted
                                     * by bytes; NULL: they are integers themselves */
    size_t group_text_count;
    const char *recipe; /* of features, as JSON: what was learnt from the store, for another feed's
                         * options; NULL: they are as they stand */
    size_t classes;     /* columns of one-hot labels; 0: they are none */
    int lengths;        /* enum tombola_lengths; unless TOMBOLA_LENGTHS_ALIKE, `features` is the
                         * most that a batch is wide, and they have no names */
};

struct tombola_stats {
    int64_t batches, rows, bytes;       /* handed out; bytes of features */
    int64_t bad_rows;                   /* skipped or replaced */
    int64_t pull_ns, fetch_ns, copy_ns; /* busy time of the threads */
    int64_t wait_ns;  /* the caller waited in tombola_feed_next(), the first batch left out */
    int64_t first_ns; /* from open to the first batch */
    int64_t lost;     /* leases that ran out before put: somebody else got those batches, too */
    int64_t resident_rows; /* that stay in the device's memory now */
    int64_t copied_rows;   /* where rows may stay there: fetched and copied so far */
};

struct tombola_feed;

/* Opens the store (which may take a while for a large CSV) and the device, starts the threads. What
 * is wrong with the sampler, the first tombola_feed_next() says. */
TOMBOLA_API int tombola_feed_open(const struct tombola_options *options,
                                  struct tombola_feed **ret_feed);
/* At any time. Batches that are out stay valid until they are put back or dropped; the feed and its
 * memory go with the last of them, and until then these are the calls that it takes. Then what was
 * put back is acked, and what was not handed out is lent to others. Returns within a second
 * whatever hangs: a thread that the system does not let go (a file server that is away) is left
 * behind with the memory that it uses, and a warning is logged. NULL is legal. */
TOMBOLA_API void tombola_feed_close(struct tombola_feed *feed);

#define TOMBOLA_FOREVER (-1)
/* The next batch, which is valid until tombola_feed_put(). Waits `timeout_ms` (0: takes only what
 * is ready; < 0: as long as it takes), then TOMBOLA_NOT_YET: nothing is lost, a later call brings
 * it. TOMBOLA_END behind the last. At most as many batches as the feed has slots may be out; it
 * fetches ahead into the others. */
TOMBOLA_API int tombola_feed_next(struct tombola_feed *feed, void *stream, int64_t timeout_ms,
                                  const struct tombola_batch **ret_batch);
/* From any thread, in any order. Each is put back once; it is invalid from then on. */
TOMBOLA_API int tombola_feed_put(struct tombola_feed *feed, void *stream,
                                 const struct tombola_batch *batch);
/* The same for a batch that was not trained: its lease is not acked, and when it has run out
 * somebody gets the batch again. By index tombola_feed_state() does not count it; of plain draws
 * the sampler is not told. */
TOMBOLA_API int tombola_feed_drop(struct tombola_feed *feed, void *stream,
                                  const struct tombola_batch *batch);
/* From any thread, of a batch whose memory is needed for longer: it was trained (1: its lease is
 * acked now), or not (0). It stays valid until it is put back or dropped, which then only gives the
 * memory back. The first word counts. */
TOMBOLA_API int tombola_feed_settle(struct tombola_feed *feed, const struct tombola_batch *batch,
                                    int trained);
/* From any thread: a batch of the caller's own with the same rows, all of it in host memory, behind
 * what is in `stream`, for which it waits. It stays when the feed is closed; to be freed, not put
 * back. */
TOMBOLA_API int tombola_batch_copy(struct tombola_feed *feed, void *stream,
                                   const struct tombola_batch *batch,
                                   struct tombola_batch **ret_copy);
/* NULL is legal. */
TOMBOLA_API void tombola_batch_free(struct tombola_batch *copy);
/* From any thread: the tombola_feed_next() that waits, or else the next one that would have to,
 * returns TOMBOLA_CANCELLED. The call after it goes on where it was. */
TOMBOLA_API void tombola_feed_interrupt(struct tombola_feed *feed);

/* TOMBOLA_INDEX: how far this feed is, as a text of one line (JSON) for the next feed's `state`:
 * which order of the sampler, and which batches of it were put back; what was fetched ahead or is
 * out does not count. Another order is refused then (TOMBOLA_CONFLICT). With ranks the text of one
 * serves all, of another `world` too, when all have put back as many batches and none is out; else
 * each rank keeps its own. Borrowed until the next call for this feed. TOMBOLA_USAGE before the
 * first batch. */
TOMBOLA_API int tombola_feed_state(struct tombola_feed *feed, const char **ret_state);

/* `bytes`: sizeof of the struct, as the caller's header has it. Of no feed (NULL): all zeros. */
TOMBOLA_API void tombola_feed_describe(const struct tombola_feed *feed,
                                       struct tombola_description *ret_description, size_t bytes);
/* Cheap; from any thread. */
TOMBOLA_API void tombola_feed_stats(const struct tombola_feed *feed,
                                    struct tombola_stats *ret_stats, size_t bytes);

/* This thread's last message; valid until its next call. Never NULL. */
TOMBOLA_API const char *tombola_error_message(void);
/* What is logged: 0 all, 1 news, 2 warnings (the default), 3 errors. */
TOMBOLA_API void tombola_log_level(int level);
/* Where: `take` is called with each message from whichever thread has it, one at a time; it must
 * not wait, nor call this library. NULL: lines on standard error. Returns when no call with the
 * arguments of before is left. */
TOMBOLA_API void tombola_log_to(void (*take)(int level, const char *message, void *context),
                                void *context);
/* "0.1.0" */
TOMBOLA_API const char *tombola_version(void);

#ifdef __cplusplus
}
#endif

#endif
