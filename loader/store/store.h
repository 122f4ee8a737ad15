/* SPDX-License-Identifier: MIT */
/*
 * A store: where rows are fetched by id, named by a URI (loader/STORES.md lists the forms).
 *
 *   struct store   the description, shared by all threads, immutable once open
 *   struct reader  one thread's own handle on it (a connection, a file descriptor)
 *
 * A row is F features of one element type, and a label; if the URI has `longest=`, rows differ in
 * length, up to F. Features are u8 if every value is an integer 0..255, else f32, or as the URI
 * says (element.h). Ids are 0 to 2^63-1. Both kinds of access see the same rows; a row's bytes do
 * not depend on the kind of store.
 *
 * Dimensions: B rows requested, F features, R rows in the store.
 */
#ifndef LOADER_STORE_STORE_H
#define LOADER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "common/uri.h"
#include "loader/column/element.h"
#include "loader/column/label_dictionary.h"
#include "loader/column/read_options.h"
#include "loader/column/row_limit.h"

struct store_info {
    const char *uri; /* as given, for messages; open() may replace it, malloc'ed */
    int64_t rows;    /* R */
    size_t features; /* F; 0 is legal: a store of (id, label) only */
    enum row_lengths lengths;
    uint64_t elements;    /* unless LENGTHS_ALIKE: features of all rows together, */
    size_t longest;       /* and of the longest row */
    const int64_t *shape; /* of a row, in C order: F elements; NULL: [F] */
    size_t dimensions;    /* of it */
    enum element element;
    enum label_kind label_kind;
    const char *const *column_names;  /* all columns in order; NULL: unknown */
    size_t column_count;              /* of them */
    uint64_t bytes;                   /* that a scan reads, for progress; 0: unknown */
    const char *id_column;            /* NULL: ids are row numbers from 0 */
    const char *label_column;         /* NULL with LABEL_NONE */
    const char *const *label_choices; /* candidates for label=, if there are no labels and the URI
                                       * does not say so explicitly; else NULL */
    size_t label_choice_count;        /* of them */
    const char *weight_column;        /* NULL: none named */
    const char *group_column;         /* NULL: none named */
    const char *const *feature_names; /* F names ("p0", or "0" without a header); NULL: unnamed, or
                                       * rows differ in length */
    const char *const *label_texts;   /* LABEL_TEXT: the texts, sorted by bytes */
    size_t label_text_count;
    int64_t bad_rows;          /* rows that fetch() would report as ROW_BAD, as far as open() found
                                * them */
    const char *table;         /* of the rows; NULL: none, or several stores */
    const char *database;      /* its location: a file's path, or what identifies a server's
                                * database; NULL: no table, or unknown */
    const char *digest;        /* of all rows, recorded by import (content_digest.h); NULL: none */
    bool digest_may_be_old;    /* the rows may have been written to since */
    const char *first_bad_row; /* file, line and column of the first bad row; NULL: none */
    struct feature_recipe *recipe; /* the recipe of its features, here or at import; NULL: unchanged
                                    * values */
};

/* The error_kind() of an open, or of a scan of keys, that fails because the store has no rows. */
#define STORE_WITHOUT_ROWS "no-rows"
/* Is the error of that kind? Call right after the failure. */
bool store_is_without_rows(enum error error);

enum row_status {
    ROW_OK,
    ROW_MISSING, /* no row has this id */
    ROW_BAD      /* the row exists, but a field does not fit its column */
};

/* A column of a block as numbers into the list of the block's distinct texts, in order of first
 * occurrence. codes NULL: there is no such list. */
struct store_codes {
    const uint32_t *codes; /* [rows] */
    const struct text *texts;
    size_t count; /* texts */
};

/* A block of rows from scan(), in frame order (CSV: by row; SQLite and PostgreSQL: by id).
 * Everything is borrowed for the duration of the callback. */
struct store_block {
    size_t rows;
    int64_t first_row;              /* row number of the block's first row, from 0 */
    const int64_t *ids;             /* [rows] */
    const struct text *labels;      /* [rows], as text whatever the column's type; "" if none */
    const double *weights;          /* [rows], or NULL */
    const struct text *groups;      /* [rows], or NULL */
    struct store_codes label_codes; /* with SCAN_CODES a store may provide these instead of
                                     * labels, */
    struct store_codes group_codes; /* and these instead of groups */
    const double *label_values;     /* [rows], with SCAN_FEATURES: labels as fetch() returns them */
    const void *features;           /* [rows, F] of info.element, with SCAN_FEATURES, else NULL */
    const int64_t *lengths; /* [rows], with SCAN_FEATURES unless LENGTHS_ALIKE: features of each row
                             * (0: bad), which then follow each other without gaps; else NULL */
    const enum row_status *status; /* [rows], with SCAN_BAD_ROWS, else NULL: all are ROW_OK */
    uint64_t bytes_done;           /* of the store, including this block, */
    uint64_t bytes_total;          /* the total; 0: unknown */
};

enum scan_columns {
    SCAN_KEYS = 0,     /* ids, labels, weights, groups: what a frame needs */
    SCAN_FEATURES = 1, /* also features and label_values; a row with a bad feature ends the scan
                        * with ERROR_INPUT naming file, row and column */
    SCAN_BAD_ROWS = 2, /* with SCAN_FEATURES: bad rows come zeroed, as ROW_BAD, instead */
    SCAN_CODES = 4,    /* without SCAN_FEATURES: keys, perhaps as codes; duplicate ids and progress
                        * are left to the caller */
    SCAN_DIGESTS = 8   /* with SCAN_FEATURES: in a union, each store without the digest recorded by
                        * import is ERROR_INPUT */
};

/* Rows in memory, as fetch() returns them: place p is p strides after `rows`. */
struct store_memory {
    const uint8_t *rows;
    size_t stride_bytes;
};

/* Returns OK to continue; anything else ends the scan, which returns it. */
typedef enum error store_sink(void *context, const struct store_block *block);

typedef enum error store_file_sink(void *context, const char *path);

struct store;
struct reader;
struct feature_recipe;
struct row_slots;
struct id_index;

#define STORE_PLACE_BYTES 512 /* of store_locate()'s text */

/* Implemented by each kind of store; chosen by the URI's scheme, or a bare path's ending. */
struct store_ops {
    const char *scheme;  /* "csv" */
    const char *endings; /* of bare paths: ".csv|.tsv", or NULL */
    bool takes_recipe;   /* missing= and onehot= of a URI ask for one; else open() ignores it */
    enum error (*open)(struct uri *uri, const struct read_options *options,
                       struct store **ret_store) MUST_CHECK;
    /* Moves the rows that open() kept for a row cache to the caller: if it has to read all rows
     * anyway, and they fit into cache_bytes. *ret_ids indexes their ids, borrowed until close().
     * False: none were kept, or they were taken. NULL: never keeps any. */
    bool (*take_rows)(struct store *store, struct row_slots *ret_slots,
                      const struct id_index **ret_ids);
    /* Calls `add` for each file, other than `path`, that a URI with this query takes rows from or
     * that open() checks, whether or not it exists. NULL: there are none. */
    enum error (*other_files)(const char *path, struct uri_query *query, store_file_sink *add,
                              void *context) MUST_CHECK;
    void (*close)(struct store *store);
    enum error (*scan)(struct store *store, enum scan_columns columns, store_sink *sink,
                       void *context) MUST_CHECK;
    enum error (*reader_open)(struct store *store, struct reader **ret_reader) MUST_CHECK;
    void (*reader_close)(struct reader *reader);
    enum error (*fetch)(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status) MUST_CHECK;
    /* NULL: messages give the row number. */
    enum error (*locate)(struct store *store, int64_t row, char out[STORE_PLACE_BYTES]) MUST_CHECK;
    /* Like reader_lengths(), unless LENGTHS_ALIKE. NULL: rows are fetched instead. */
    enum error (*measure)(struct reader *reader, const int64_t *ids, size_t count,
                          int64_t *lengths) MUST_CHECK;
    /* Are lengths in memory, so that measure() reads nothing now? fetch() then writes nothing after
     * a row's features, and nothing for a bad one. NULL: never. */
    bool (*knows_lengths)(const struct reader *reader);
    /* Like store_part(). NULL: it is one store. */
    const struct store *(*part)(const struct store *store, size_t number);
    /* Like reader_has_run(). NULL: never. */
    bool (*has_run)(struct reader *reader, int64_t *ret_first);
    /* Like reader_find(). NULL: no row is in memory. */
    bool (*find)(struct reader *reader, const int64_t *ids, size_t count, uint32_t *places,
                 double *labels, struct store_memory *ret_memory);
};

/* First member of every implementation's struct. */
struct store {
    const struct store_ops *ops;
    struct store_info info;
    _Atomic int keepers; /* in addition to the opener */
};
struct reader {
    struct store *store;
    int64_t *lengths; /* of the fetch() in progress: receives the length of each row; NULL: pad rows
                       * with zeros */
};
/* For implementations: counts a bad row, described by error_message(). Copies the first one's
 * message to *first, which the caller frees. */
enum error store_add_bad_row(struct store_info *info, char **first) MUST_CHECK;

/* NULL is legal. The store closes when all its keepers have closed it. */
void store_close(struct store *store);
/* For threads that may be left behind: the store stays until an additional store_close(). */
void store_keep(struct store *store);

/* The store's description; borrowed until store_close(). */
const struct store_info *store_info(const struct store *store);

/* Part `number` of a union of stores, borrowed; NULL: no more. A single store is its own part 0. */
const struct store *store_part(const struct store *store, size_t number);

/* Advice for a store without labels, in case that is an oversight: `?label=NAME in the URI says
 * which column holds them: "a", "b", "c"`; "" if there is none. Returns `out`. */
#define STORE_HINT_BYTES 640
const char *store_label_hint(const struct store_info *info, char out[STORE_HINT_BYTES]);
/* The same as a logged warning, for programs that continue without labels. */
void store_warn_of_labels(const struct store_info *info);

/* All rows in frame order, in blocks. Duplicate ids are an error here (ERROR_INPUT, naming both
 * rows if the store can). Any thread; several scans at once are legal. */
enum error store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context) MUST_CHECK;

/* The location of a row of a scan, for a message: "train.csv, line 7". May read the store up to it.
 * Returns `out`. */
const char *store_locate(struct store *store, int64_t row, char out[STORE_PLACE_BYTES]);

enum error reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
void reader_close(struct reader *reader);

/* Fetches `count` rows by id, in the requested order, duplicates allowed: row i to features + i *
 * stride_bytes (F elements of info.element; nothing after them is touched), labels[i] (value, or
 * index into label_texts), status[i]. Rows that are not ROW_OK are zeroed, and error_message()
 * describes the first of them, naming file, row and column; the call still returns OK. On any other
 * result no row is valid. `labels` may be NULL. Allocates nothing after the first call with the
 * largest count. */
enum error reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status) MUST_CHECK;
/* Instead of a copy: the places of the rows, if the store has all of them in memory until it is
 * closed, and none of these is bad. False: fetch them; `places` and `labels` are then undefined.
 * Reads only the labels' cache lines. */
bool reader_find(struct reader *reader, const int64_t *ids, size_t count, uint32_t *places,
                 double *labels, struct store_memory *ret_memory);
/* Are the store's ids all integers from *ret_first on, and does fetch() read consecutive ids as
 * fast as scan() would? Then several threads, a reader each, read the store faster than scan(). */
bool reader_has_run(struct reader *reader, int64_t *ret_first);
/* Like reader_fetch(), and lengths[i] is the number of row i's features: F unless rows differ; 0
 * for a row that is not ROW_OK. Such a row is zeroed only if LENGTHS_ALIKE: what follows a row's
 * features, up to F, is undefined. reader_fetch() fills it with zeros. */
enum error reader_fetch_lengths(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status, int64_t *lengths) MUST_CHECK;
/* The same packed: [count, *ret_width], shorter rows padded with zeros. The width is the longest
 * row's, or F with LENGTHS_LIMITED; `features` has room for `count` times F. If lengths are in
 * memory, only the part filled is touched. */
enum error reader_fetch_packed(struct reader *reader, const int64_t *ids, size_t count,
                               void *features, double *labels, enum row_status *status,
                               int64_t *lengths, size_t *ret_width) MUST_CHECK;
/* For a reader that forwards requests: reader_fetch() by `inner`, with lengths (from row `first` of
 * the request on) if `outer` was asked for them. */
enum error reader_fetch_as(struct reader *inner, const struct reader *outer, size_t first,
                           const int64_t *ids, size_t count, void *features, size_t stride_bytes,
                           double *labels, enum row_status *status) MUST_CHECK;
/* Only the lengths, of rows that exist (any for a bad one), 0 for others: without reading rows, if
 * the store can. Allocates only if it cannot. */
enum error reader_lengths(struct reader *reader, const int64_t *ids, size_t count,
                          int64_t *lengths) MUST_CHECK;

/* Size of the features of row i of a block. */
static inline size_t store_block_row_bytes(const struct store_block *block, size_t i,
                                           const struct store_info *info)
{
    size_t features = block->lengths ? (size_t)block->lengths[i] : info->features;
    return features * element_bytes(info->element);
}

#endif
