/* SPDX-License-Identifier: MIT */
/*
 * libtombola: batches of training rows, drawn by a Tombola sampler and fetched from a store, ready
 * in memory (or on the GPU) ahead of training.
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
 *   tombola_feed_open() allocates a ring of slots (page-locked if there is a GPU) and starts
 *   threads that pull batches of ids from the sampler, fetch their rows from the store and copy
 *   them to the device. tombola_feed_next() returns the next slot without copying it;
 *   tombola_feed_put() returns the slot to the feed. Batches always come in the sampler's order.
 *
 *   With TOMBOLA_LEASE, several programs share the sampler's stream, and a batch counts as trained
 *   when it is put back. A thread renews the leases. Batches that a lost program held, or that were
 *   dropped (tombola_feed_drop()), are redelivered; a program that stood still for longer than its
 *   leases leaves what it had fetched ahead to others. If few batches are left in a stream, a feed
 *   leases only a share of them ahead, so that all programs end at about the same time.
 *   Programs that share a stream need the same batch_rows: a batch is redelivered as it was leased,
 *   and a feed with smaller ones cuts it. If that feed ends or drops one of the pieces, all of them
 *   are redelivered, also those that were put back; a warning says so.
 *   With TOMBOLA_INDEX, batch K is requested by its number and the stream's position does not move:
 *   a program that remembers K can resume exactly there, any number of times, and ranks divide the
 *   numbers.
 *   Plain draws (TOMBOLA_DRAW) count as trained when the sampler sends them.
 *
 *   ON A GPU features are in device memory. `stream` is the cudaStream_t on which the caller works
 *   (NULL: CUDA's default stream): tombola_feed_next() makes it wait for the copy, and a slot that
 *   was put back, with its ids and labels, is not overwritten until all work enqueued in `stream`
 *   at tombola_feed_put() is done. Neither call blocks the thread for that. On the CPU `stream` is
 *   ignored.
 *
 * THREADS
 *   A feed belongs to one thread at a time; tombola_feed_put(), tombola_feed_drop(),
 *   tombola_feed_settle(), tombola_batch_copy(), tombola_feed_interrupt() and tombola_feed_stats()
 *   may be called from any thread. Feeds are independent of each other. The error message is per
 *   thread. A feed belongs to the process that opened it: in a child of fork(), every call for it
 *   returns TOMBOLA_USAGE, tombola_feed_close() leaves it to the parent, and the child may open its
 *   own feed. The calling thread's current CUDA device does not change.
 *
 * ERRORS
 *   Functions that can fail return TOMBOLA_OK or a negative enum tombola_status;
 *   tombola_error_message() then says what was found, where, and what is expected. Outputs are set
 *   only on success. Warnings go to standard error (tombola_log_level()). A NULL feed or output, or
 *   a batch that is not out or belongs to another feed, is TOMBOLA_USAGE and changes nothing.
 *
 * ENVIRONMENT
 *   TOMBOLA_TOKEN is sent to the sampler as a bearer token, unless the options have one.
 *   TOMBOLA_CA is a PEM file of the certificate authorities that are trusted for an https://
 *   sampler instead of the system's, unless the options name one.
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
    TOMBOLA_CONFLICT = -4,     /* the sampler's stream is paused, or has changed */
    TOMBOLA_IO = -5,           /* the system refused a read or a write */
    TOMBOLA_NO_SPACE = -6,     /* disk or quota is full */
    TOMBOLA_MEMORY = -7,       /* allocation failed */
    TOMBOLA_NETWORK = -8,      /* the sampler is gone, refuses, or is no sampler */
    TOMBOLA_TIMEOUT = -9,      /* the sampler was silent or busy for longer than patience_ms */
    TOMBOLA_UNAVAILABLE = -10, /* no such device on this machine, or in this build */
    TOMBOLA_CANCELLED = -11,   /* stopped or interrupted from outside */
    TOMBOLA_END = -12,         /* the stream has ended; not a failure */
    TOMBOLA_NOT_YET = -13      /* timeout of tombola_feed_next(); not a failure */
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
    TOMBOLA_LABEL_TEXT = 3 /* indexes into label_texts */
};

/* The type of a batch's `device_labels`. */
enum tombola_labels {
    TOMBOLA_LABELS_HOST = 0, /* none: labels are only on the host */
    TOMBOLA_LABELS_F64 = 1,
    TOMBOLA_LABELS_I64 = 2, /* TOMBOLA_USAGE if the store's labels are real numbers */
    TOMBOLA_LABELS_F32 = 3,
    TOMBOLA_LABELS_BY_KIND = 4, /* options only: F64 for real numbers, else I64 */
    /* [rows, classes]: 1 at the label's code, else 0. The code of a text is its index, that of an
     * integer the integer itself. TOMBOLA_USAGE if labels are real or negative numbers. */
    TOMBOLA_LABELS_ONE_HOT_F32 = 5,
    TOMBOLA_LABELS_ONE_HOT_U8 = 6
};

/* The type of a batch's `weights`. */
enum tombola_weights { TOMBOLA_WEIGHTS_NONE = 0, TOMBOLA_WEIGHTS_F32 = 1, TOMBOLA_WEIGHTS_F64 = 2 };

#define TOMBOLA_NO_CACHE SIZE_MAX
#define TOMBOLA_NOT_RESIDENT SIZE_MAX

/* All members but the first three may be 0: the default. Strings are copied. */
struct tombola_options {
    size_t struct_bytes;     /* sizeof(struct tombola_options) */
    const char *sampler_url; /* "http://host:port" */
    const char *store_uri;   /* "csv:PATH?label=0&header=no", "sqlite:PATH", ..., or a path */
    size_t batch_rows;       /* 0: 100 */
    const char *device;      /* "cpu", "cuda", "cuda:1", "auto"; NULL: "cpu" */
    const char *stream;      /* the sampler's stream; NULL: "default" */
    int pull;                /* enum tombola_pull */
    int bad_rows;            /* enum tombola_bad_rows */
    int64_t first_index;     /* TOMBOLA_INDEX: the first batch's number */
    int64_t batches;         /* end after this many; 0: at the end of the stream */
    int expand;              /* 1: convert bytes to floats, times `scale`; 0: features as stored.
                              * TOMBOLA_I32 (element=i32 in the URI) is never converted */
    float scale;             /* 0: 1/255 */
    /* How many batches may be out at once. 0: 8; up to 16 for leases and 64 by index, of which, if
     * bytes become floats on a CPU, only as many may be out as stay in its cache, but at least 4;
     * for large batches 3 to 8, as many as fit into 256 MiB. */
    size_t slots;
    size_t fetchers;    /* threads that fetch; 0: 1 */
    size_t cache_bytes; /* memory for rows: all, or as many as fit, are read into it while the first
                         * batches are fetched; 0: half of the free memory of the machine or
                         * container, less if memory gets scarce; TOMBOLA_NO_CACHE: none */
    int64_t patience_ms; /* give up if the sampler does not answer for this long; 0: a minute;
                          * < 0: never */
    int trust_labels;    /* 1: do not compare the store's labels with the sampler's */
    /* TOMBOLA_INDEX: `world` feeds divide a stream, all with the same first_index; this is number
     * `rank`, 0 to world - 1. Batches go to the ranks in turn, and all ranks get the same number of
     * them. An incomplete last round is left out, with a warning, unless `pad` is 1: then the
     * stream's first batches complete it. world 0: 1. */
    int64_t rank, world;
    int pad;
    const char *state; /* TOMBOLA_INDEX: resume from this (tombola_feed_state()); NULL: begin */
    /* TOMBOLA_LEASE: 1 to 128 of [A-Za-z0-9._:-], unique among running programs; NULL: a generated
     * name. The sampler's page and metrics show it. */
    const char *worker;
    const char *token;     /* bearer token for the sampler; NULL: TOMBOLA_TOKEN */
    const char *authority; /* https://: PEM file of trusted certificate authorities; NULL:
                            * TOMBOLA_CA */
    int labels;            /* enum tombola_labels */
    /* Features become (x - mean) / deviation, as floats, after bytes are multiplied by `scale`. A
     * row consists of `channels` equal runs of features, each with its own mean and deviation: 1
     * for all features, 3 for images stored as three colour planes, or one per feature. 0: features
     * are not normalized; TOMBOLA_I32 never is. Read only during tombola_feed_open(). */
    size_t channels;
    const float *mean;      /* [channels]; NULL: 0 */
    const float *deviation; /* [channels], above 0; NULL: 1 */
    /* Device memory for rows that stay there as stored: each is copied once, and later batches are
     * gathered by row number. 0: on a GPU all rows, if they fit into half of the memory that is
     * left there, else none; on the CPU none; n: as many as fit; TOMBOLA_NOT_RESIDENT: none. */
    size_t resident_bytes;
    /* Caches rows in a file in this folder, which other and later programs on the machine share. It
     * is written while the first batches are fetched and is only a copy: if anything is wrong with
     * it, rows come from the store, and a warning names it. Rows are then kept in memory, which
     * these programs would not share, only if cache_bytes is set. NULL: TOMBOLA_CACHE; "": none. */
    const char *cache_dir;
    uint64_t cache_limit; /* bytes of all files there; the least recently used are removed. 0:
                           * TOMBOLA_CACHE_LIMIT, else until a twentieth of the disk is left */
    /* For a store whose URI names such a column (weight=NAME, group=NAME), or that was imported
     * from one: batches contain each row's weight, as enum tombola_weights, and with `groups` 1 its
     * group. Opening then reads the keys of all rows, and keeps 8 bytes per row for weights, 4 for
     * groups, and up to 19 for ids that are not consecutive. */
    int weights;
    int groups;
    const char *recipe; /* how to fill missing values and encode text categories, from another
                         * feed's description; NULL: learn what the URI asks for (missing=, onehot=)
                         * from the store itself */
    /* Columns of one-hot labels. 0: the number of texts, or the largest integer plus one, which
     * requires reading the keys of all rows. A label out of range ends the feed with TOMBOLA_INPUT
     * at its batch. Rows replaced by zeros have code 0, like their label. */
    size_t classes;
    /* TOMBOLA_INDEX, for a store whose rows differ in length: within each window of this many
     * batches of an epoch, rows are sorted by length and cut into batches, whose order depends on
     * the stream's seed and the window. Batches then have fewer zeros; each row still comes once an
     * epoch, ranks and `state` work as usual (for the same window), and batch K always holds the
     * same rows. 0: batches as the sampler cuts them. */
    size_t bucket_window;
    /* TOMBOLA_INDEX: `parts` feeds divide the batches of this rank, such as a DataLoader's workers;
     * this is number `part`, 0 to parts - 1. Together they take exactly the rank's batches.
     * parts 0: 1. */
    int64_t part, parts;
};

struct tombola_batch {
    size_t rows;          /* less than batch_rows at an epoch's end, or if bad rows are skipped */
    const int64_t *ids;   /* [rows] in host memory */
    const double *labels; /* [rows] in host memory */
    const void *features; /* [rows, width] in device memory */
    int64_t epoch, first; /* the batch's epoch, and its first unit's position in the order */
    int64_t index;        /* TOMBOLA_INDEX: the batch's number; else counted from 0 */
    int64_t seq;          /* TOMBOLA_LEASE: the worker's number for the batch */
    int64_t attempt;      /* above 1 if it was leased before and redelivered; TOMBOLA_INDEX: 0 */
    const void *device_labels; /* [rows], one-hot [rows, classes], in device memory, of the
                                * description's enum tombola_labels; NULL: TOMBOLA_LABELS_HOST */
    const void *weights;   /* [rows] in host memory, of the options' enum tombola_weights; NULL: not
                            * requested. Rows replaced by zeros have 0, also as their group */
    const int64_t *groups; /* [rows] in host memory: the groups themselves if all are 64-bit
                            * integers, else indexes into group_texts; NULL: not requested */
    const void *device_weights, *device_groups; /* the same in device memory */
    size_t width;           /* features per row in `features`: the description's, but if rows
                             * differ in length, that of the longest row of this batch or the
                             * longest= of the URI */
    const int64_t *lengths; /* [rows] in host memory: how many of them belong to the row; zeros
                             * follow. 0 for rows replaced by zeros. NULL: rows do not differ in
                             * length */
    const int64_t *device_lengths; /* the same in device memory */
    /* TOMBOLA_INDEX: the epoch of rank 0's batch in this step, the same for all ranks: loops that
     * end an epoch when it changes all end after the same number of steps. Equals `epoch` without
     * ranks, and for designs whose draws determine the batches, such as bernoulli. */
    int64_t round_epoch;
};

/* Borrowed until tombola_feed_close(). */
struct tombola_description {
    int64_t rows;       /* of the store */
    size_t features;    /* per row */
    int element;        /* enum tombola_element, of a batch's features */
    int label_kind;     /* enum tombola_label_kind */
    int device_is_cuda; /* features are in the memory of GPU device_index */
    int device_index;
    const char *device;               /* "CPU", "NVIDIA H200, 139 GiB, driver 13.0" */
    const char *const *feature_names; /* [features]; NULL: they have no names */
    const char *const *label_texts;   /* [label_text_count] */
    size_t label_text_count;
    size_t slots;         /* how many batches may be out at once */
    int labels;           /* enum tombola_labels, of device_labels */
    size_t dimensions;    /* of a row in its store (IDX: 28 x 28), in C order; at least 1 */
    const int64_t *shape; /* [dimensions] */
    int weights;          /* enum tombola_weights, of weights */
    int groups;           /* 1: batches have groups */
    const char *const *group_texts; /* [group_text_count], sorted by bytes: what groups index; NULL:
                                     * groups are the integers themselves */
    size_t group_text_count;
    const char *recipe; /* as JSON, how missing values and text categories were converted, for
                         * another feed's options; NULL: features are as stored */
    size_t classes;     /* columns of one-hot labels; 0: labels are not one-hot */
    int lengths;        /* enum tombola_lengths; unless TOMBOLA_LENGTHS_ALIKE, `features` is the
                         * maximum width of a batch, and features have no names */
};

struct tombola_stats {
    int64_t batches, rows, bytes;       /* handed out; bytes of features */
    int64_t bad_rows;                   /* skipped or replaced */
    int64_t pull_ns, fetch_ns, copy_ns; /* busy time of the threads */
    int64_t wait_ns;       /* the caller waited in tombola_feed_next(), without the first batch */
    int64_t first_ns;      /* from open to the first batch */
    int64_t lost;          /* leases that expired, or that the sampler withdrew or forgot, before
                            * the ack: others may also get those batches */
    int64_t resident_rows; /* that stay in device memory now */
    int64_t copied_rows;   /* if rows may stay there: fetched and copied so far */
};

struct tombola_feed;

/* Opens the store (which may take a while for a large CSV) and the device, and starts the threads.
 * Errors of the sampler are reported by the first tombola_feed_next(). */
TOMBOLA_API int tombola_feed_open(const struct tombola_options *options,
                                  struct tombola_feed **ret_feed);
/* May be called at any time. Batches that are out stay valid, and may only be put back or dropped;
 * the last of them frees the feed and its memory. Batches that were put back are then acked, and
 * those that were not handed out are released to other workers, if their leases have not expired
 * before. Returns within a second even if something hangs: a thread stuck in a system call (a file
 * server that is away) is left behind with its memory, and a warning is logged; if acks are among
 * what is left behind, it counts them. NULL is allowed. */
TOMBOLA_API void tombola_feed_close(struct tombola_feed *feed);

#define TOMBOLA_FOREVER (-1)
/* Returns the next batch, which is valid until tombola_feed_put(). Waits up to `timeout_ms` (0: no
 * wait; < 0: no limit), then returns TOMBOLA_NOT_YET: nothing is lost, a later call returns the
 * batch. Returns TOMBOLA_END after the last batch. At most as many batches as the feed has slots
 * may be out; it fetches ahead into the others. */
TOMBOLA_API int tombola_feed_next(struct tombola_feed *feed, void *stream, int64_t timeout_ms,
                                  const struct tombola_batch **ret_batch);
/* From any thread, in any order, once per batch, which is invalid afterwards, also if the GPU
 * failed: then it counts as dropped, and the feed returns no more batches. */
TOMBOLA_API int tombola_feed_put(struct tombola_feed *feed, void *stream,
                                 const struct tombola_batch *batch);
/* The same for a batch that was not trained: its lease is not acked, so the batch is redelivered
 * after the lease expires. By index, tombola_feed_state() does not count it. For plain draws the
 * sampler is not notified. */
TOMBOLA_API int tombola_feed_drop(struct tombola_feed *feed, void *stream,
                                  const struct tombola_batch *batch);
/* From any thread, for a batch whose memory is still needed: records that it was trained (1: its
 * lease is acked now), or not (0). It stays valid until it is put back or dropped, which then only
 * returns the memory. Only the first call counts. */
TOMBOLA_API int tombola_feed_settle(struct tombola_feed *feed, const struct tombola_batch *batch,
                                    int trained);
/* From any thread: copies the batch into host memory, after waiting for the work in `stream`. The
 * copy belongs to the caller and outlives the feed; free it, do not put it back. */
TOMBOLA_API int tombola_batch_copy(struct tombola_feed *feed, void *stream,
                                   const struct tombola_batch *batch,
                                   struct tombola_batch **ret_copy);
/* NULL is allowed. */
TOMBOLA_API void tombola_batch_free(struct tombola_batch *copy);
/* From any thread: the tombola_feed_next() that is waiting, or else the next one that would have to
 * wait, returns TOMBOLA_CANCELLED. The call after it continues where it was. */
TOMBOLA_API void tombola_feed_interrupt(struct tombola_feed *feed);

/* TOMBOLA_INDEX: this feed's progress as one line of JSON, for another feed's `state`: the order of
 * the sampler, and the batches that were put back; batches fetched ahead or out do not count.
 * Resuming with another order is refused (TOMBOLA_CONFLICT). If all ranks have put back the same
 * number of batches and none is out, one rank's text serves all, also for another `world`;
 * otherwise each rank keeps its own. Borrowed until the next call for this feed. TOMBOLA_USAGE
 * before the first batch. */
TOMBOLA_API int tombola_feed_state(struct tombola_feed *feed, const char **ret_state);

/* TOMBOLA_INDEX, from the first batch on: how many more batches tombola_feed_next() returns before
 * the first whose round_epoch is `epoch` or later; < 0: before TOMBOLA_END. TOMBOLA_USAGE if that
 * is not known: the stream has no end, or its design (bernoulli, cluster) decides with each
 * batch. */
TOMBOLA_API int tombola_feed_left(struct tombola_feed *feed, int64_t epoch, int64_t *ret_batches);

/* `bytes`: sizeof the struct in the caller's header. For a NULL feed: all zeros. */
TOMBOLA_API void tombola_feed_describe(const struct tombola_feed *feed,
                                       struct tombola_description *ret_description, size_t bytes);
/* Cheap; from any thread. */
TOMBOLA_API void tombola_feed_stats(const struct tombola_feed *feed,
                                    struct tombola_stats *ret_stats, size_t bytes);

/* This thread's last message; valid until its next call. Never NULL. */
TOMBOLA_API const char *tombola_error_message(void);
/* The least severe level that is logged: 0 all, 1 info, 2 warnings (the default), 3 errors. */
TOMBOLA_API void tombola_log_level(int level);
/* Passes each message to `take`, from any thread, one at a time; `take` must not wait or call this
 * library. NULL: write lines to standard error. Returns when no call with the previous arguments is
 * running. */
TOMBOLA_API void tombola_log_to(void (*take)(int level, const char *message, void *context),
                                void *context);
/* "0.1.0" */
TOMBOLA_API const char *tombola_version(void);

#ifdef __cplusplus
}
#endif

#endif
