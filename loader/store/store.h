/* SPDX-License-Identifier: MIT */
/*
 * A store: where rows are fetched by id, named by a URI (loader/STORES.md lists the forms).
 *
 *   struct store   what is there, shared by all threads, immutable once open
 *   struct reader  one thread's own handle on it (a connection, a file descriptor)
 *
 * A row is F features of one element type, and a label; where its URI has `longest=`, rows have as
 * many as each has, F at most. A store keeps features as u8 when every value is an integer 0..255,
 * else as f32, or as its URI says (element.h). Ids are 0 to 2^63-1. Both kinds of access see the
 * same rows; the bytes of a row do not depend on the store that holds it.
 *
 * Dimensions: B rows asked for, F features, R rows of the store.
 */
#ifndef LOADER_STORE_STORE_H
#define LOADER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "common/uri.h"
#include "loader/store/element.h"

enum label_kind {
    LABEL_NONE,    /* the store has no label column: labels read as 0 */
    LABEL_INTEGER, /* integers, exact up to 2^53 */
    LABEL_REAL,    /* numbers that are not all integers */
    LABEL_TEXT     /* index into label_texts */
};

/* How many features rows have. */
enum row_lengths {
    LENGTHS_ALIKE,  /* F, all of them */
    LENGTHS_VARY,   /* each its own number; F is that of the longest row (longest=any) */
    LENGTHS_LIMITED /* the same; F is what longest= allows, and how wide a batch always is */
};

extern const char *const label_kind_names[4]; /* "none", "integer", "real", "text" */

struct store_info {
    const char *uri; /* as given, for messages; open() may set another, malloc'ed */
    int64_t rows;    /* R */
    size_t features; /* F; 0 is legal: a store of (id, label) only */
    enum row_lengths lengths;
    uint64_t elements;    /* unless LENGTHS_ALIKE: features of all rows together, */
    size_t longest;       /* and of the longest row */
    const int64_t *shape; /* of a row, in C order: F elements; NULL: [F] */
    size_t dimensions;    /* of it */
    enum element element;
    enum label_kind label_kind;
    const char *const *column_names;  /* all columns in their order; NULL: not known */
    size_t column_count;              /* of them */
    uint64_t bytes;                   /* what a scan reads, for progress; 0: not known */
    const char *id_column;            /* NULL: ids are row numbers from 0 */
    const char *label_column;         /* NULL with LABEL_NONE */
    const char *const *label_choices; /* columns that label= might name, where there are no labels
                                       * and the URI does not say that it is meant; else NULL */
    size_t label_choice_count;        /* of them */
    const char *weight_column;        /* NULL: none was named */
    const char *group_column;         /* NULL: none was named */
    const char *const *feature_names; /* F names ("p0", or "0" where there is no header); NULL:
                                       * they have none, or rows differ in length */
    const char *const *label_texts;   /* LABEL_TEXT: the texts, sorted by bytes */
    size_t label_text_count;
    int64_t bad_rows;          /* rows that fetch() would call ROW_BAD, as far as open() met them */
    const char *table;         /* that the rows are of; NULL: of none, or of several stores */
    const char *database;      /* where it is: a file's path, or what tells a server's database from
                                * all others; NULL: there is no table, or that is not known */
    const char *digest;        /* of all rows, as import noted it (content_digest.h); NULL: none */
    bool digest_may_be_old;    /* they may have been written to since */
    const char *first_bad_row; /* file, line and column of the first of them; NULL: none */
    struct feature_recipe *recipe; /* what its features are made by, or were when they were
                                    * imported; NULL: they are as they stand */
};

/* The error_kind() of an open, or of a scan of keys, that fails since the store has no rows. */
#define STORE_WITHOUT_ROWS "no-rows"
/* Is it that? Right after the failure. */
bool store_is_without_rows(enum error error);

enum row_status {
    ROW_OK,
    ROW_MISSING, /* no row has this id */
    ROW_BAD      /* the row is there, but a field is not what its column holds */
};

/* A column of a block as numbers into the list of the block's different texts, which stand there in
 * the order of their first rows. codes NULL: there is no such list. */
struct store_codes {
    const uint32_t *codes; /* [rows] */
    const struct text *texts;
    size_t count; /* texts */
};

/* A block of rows as scan() hands it out, in frame order (CSV: by row; SQLite and PostgreSQL: by
 * id). Everything is borrowed for the duration of the callback. */
struct store_block {
    size_t rows;
    int64_t first_row;              /* row number of the block's first row, from 0 */
    const int64_t *ids;             /* [rows] */
    const struct text *labels;      /* [rows], as text whatever the column's type; "" if none */
    const double *weights;          /* [rows], or NULL */
    const struct text *groups;      /* [rows], or NULL */
    struct store_codes label_codes; /* with SCAN_CODES a store may give these instead of labels, */
    struct store_codes group_codes; /* and these instead of groups */
    const double *label_values;     /* [rows], with SCAN_FEATURES: as fetch() gives labels */
    const void *features;           /* [rows, F] of info.element, with SCAN_FEATURES, else NULL */
    const int64_t *lengths; /* [rows], with SCAN_FEATURES unless LENGTHS_ALIKE: features of each row
                             * (0: bad), which then follow each other without a gap; else NULL */
    const enum row_status *status; /* [rows], with SCAN_BAD_ROWS, else NULL: all are ROW_OK */
    uint64_t bytes_done;           /* of the store, this block included, */
    uint64_t bytes_total;          /* of so many; 0: not known */
};

enum scan_columns {
    SCAN_KEYS = 0,     /* ids, labels, weights, groups: all that a frame needs */
    SCAN_FEATURES = 1, /* features and label_values as well; a row with a bad feature ends the scan
                        * with ERROR_INPUT naming file, row and column */
    SCAN_BAD_ROWS = 2, /* with SCAN_FEATURES: such rows come zeroed, with ROW_BAD, instead */
    SCAN_CODES = 4,    /* without SCAN_FEATURES: keys, perhaps as codes; ids that come twice are no
                        * error, and progress is not logged: both are the caller's */
    SCAN_DIGESTS = 8   /* with SCAN_FEATURES: of several stores as one, each that has not the digest
                        * that import noted is ERROR_INPUT */
};

/* Rows in memory, as fetch() would give them: place p begins p strides behind `rows`. */
struct store_memory {
    const uint8_t *rows;
    size_t stride_bytes;
};

/* Returns OK to go on; anything else ends the scan, which returns it. */
typedef enum error store_sink(void *context, const struct store_block *block);

typedef enum error store_file_sink(void *context, const char *path);

struct store;
struct reader;
struct feature_recipe;
struct row_slots;
struct id_index;

#define STORE_PLACE_BYTES 512 /* of what store_locate() writes */

/* What a kind of store implements; chosen by the URI's scheme, or the ending of a bare path. */
struct store_ops {
    const char *scheme;  /* "csv" */
    const char *endings; /* of bare paths: ".csv|.tsv", or NULL */
    bool takes_recipe;   /* open() heeds uri->recipe (cell_plan.h), and learns one that is not made:
                          * then it does nothing else, and the store is closed again */
    enum error (*open)(struct uri *uri, bool keys_only, struct store **ret_store) MUST_CHECK;
    /* As open(), all columns, for a row cache of at most `cache_bytes`; NULL: open() is called. */
    enum error (*open_cached)(struct uri *uri, uint64_t cache_bytes,
                              struct store **ret_store) MUST_CHECK;
    /* Moves the rows that open_cached() kept to the caller; *ret_ids indexes their ids, borrowed
     * until close(). False: it kept none, or they were taken. NULL: it never keeps any. */
    bool (*take_rows)(struct store *store, struct row_slots *ret_slots,
                      const struct id_index **ret_ids);
    /* Calls `add` with each file besides `path`, of a URI with this query, that rows come from or
     * open() looks at, there or not. NULL: there are none. */
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
    /* As reader_lengths(), unless LENGTHS_ALIKE. NULL: rows are fetched for it. */
    enum error (*measure)(struct reader *reader, const int64_t *ids, size_t count,
                          int64_t *lengths) MUST_CHECK;
    /* Are lengths at hand, so that measure() reads nothing now? fetch() then writes nothing behind
     * the features of a row, and nothing of a bad one. NULL: never. */
    bool (*knows_lengths)(const struct reader *reader);
    /* As store_part(). NULL: it is one store. */
    const struct store *(*part)(const struct store *store, size_t number);
    /* As reader_find(). NULL: no row is in memory. */
    bool (*find)(struct reader *reader, const int64_t *ids, size_t count, uint32_t *places,
                 double *labels, struct store_memory *ret_memory);
};

/* Every implementation's struct begins with these. */
struct store {
    const struct store_ops *ops;
    struct store_info info;
    _Atomic int keepers; /* besides the one that opened it */
};
struct reader {
    struct store *store;
    int64_t *lengths; /* of the fetch() in progress: where it says the length of each row; NULL:
                       * rows are filled up with zeros */
};
/* For them: counts a bad row, which error_message() describes. The first one's message is copied to
 * *first, which the caller frees. */
enum error store_add_bad_row(struct store_info *info, char **first) MUST_CHECK;

/* NULL is legal. The store is closed when all that keep it have closed it. */
void store_close(struct store *store);
/* For threads that may be left behind: the store stays until one store_close() more. */
void store_keep(struct store *store);

/* What the store is; borrowed until store_close(). */
const struct store_info *store_info(const struct store *store);

/* Of several stores as one, the store of this number, borrowed; NULL: there are no more. One store
 * is number 0 of itself. */
const struct store *store_part(const struct store *store, size_t number);

/* Advice for a store without labels, which may be an oversight: `?label=NAME in the URI says which
 * column holds them: "a", "b", "c"`; "" where there is none to give. Returns `out`. */
#define STORE_HINT_BYTES 640
const char *store_label_hint(const struct store_info *info, char out[STORE_HINT_BYTES]);
/* The same as a warning in the log, for programs that go on without labels. */
void store_warn_of_labels(const struct store_info *info);

/* All rows in frame order, in blocks. Duplicate ids are an error here (ERROR_INPUT naming both
 * rows where the store can). Any thread; several scans at once are legal. */
enum error store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context) MUST_CHECK;

/* Where a row of a scan stands, for a message: "train.csv, line 7". May read the store up to there.
 * Returns `out`. */
const char *store_locate(struct store *store, int64_t row, char out[STORE_PLACE_BYTES]);

enum error reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
void reader_close(struct reader *reader);

/* Fetches `count` rows by id, in the order asked, duplicates allowed: row i to
 * features + i * stride_bytes (F elements of info.element; nothing beyond them is touched),
 * labels[i] (value, or index into label_texts), status[i]. Rows that are not ROW_OK are zeroed and
 * error_message() then describes the first of them, naming file, row and column; the call itself
 * still returns OK. Other results mean that no row can be trusted. `labels` may be NULL.
 * Allocates nothing after the first call with the largest count. */
enum error reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status) MUST_CHECK;
/* Instead of a copy: where the rows are, of a store that has all of them in memory until it is
 * closed, and none of them is bad. False: fetch them; what `places` and `labels` are then says
 * nothing. Reads the labels' lines alone. */
bool reader_find(struct reader *reader, const int64_t *ids, size_t count, uint32_t *places,
                 double *labels, struct store_memory *ret_memory);
/* As reader_fetch(), and lengths[i] is how many features row i has: F unless rows differ; 0 of a
 * row that is not ROW_OK. Only where LENGTHS_ALIKE such a row is zeroed: what lies behind a row's
 * features, up to F of them, holds anything. reader_fetch() fills that with zeros. */
enum error reader_fetch_lengths(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status, int64_t *lengths) MUST_CHECK;
/* The same, one row beside the other: [count, *ret_width], zeros behind the shorter ones. The width
 * is that of the longest row, or F with LENGTHS_LIMITED; `features` has room for `count` times F.
 * Where lengths are at hand only the memory that is filled so is touched. */
enum error reader_fetch_packed(struct reader *reader, const int64_t *ids, size_t count,
                               void *features, double *labels, enum row_status *status,
                               int64_t *lengths, size_t *ret_width) MUST_CHECK;
/* For a reader that hands on what it was asked: reader_fetch() by `inner`, with lengths (from row
 * `first` of what was asked on) where `outer` was asked for them. */
enum error reader_fetch_as(struct reader *inner, const struct reader *outer, size_t first,
                           const int64_t *ids, size_t count, void *features, size_t stride_bytes,
                           double *labels, enum row_status *status) MUST_CHECK;
/* The lengths alone, of rows that are there (of a bad one any), and 0 of others: without reading
 * rows, where the store can. Allocates only where it cannot. */
enum error reader_lengths(struct reader *reader, const int64_t *ids, size_t count,
                          int64_t *lengths) MUST_CHECK;

/* How many bytes the features of row i of a block take. */
static inline size_t store_block_row_bytes(const struct store_block *block, size_t i,
                                           const struct store_info *info)
{
    size_t features = block->lengths ? (size_t)block->lengths[i] : info->features;
    return features * element_bytes(info->element);
}

#endif
