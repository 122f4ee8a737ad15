/* SPDX-License-Identifier: MIT */
/*
 * The row file, version 1: Tombola's own format, written by `tombola-loader import` and immutable
 * from then on. Little-endian. The parts follow each other without gaps:
 *
 *   header   struct rows_head, then texts that end in NUL: the columns' names (id, label, weight,
 *            group; "" for one that is not there), F names of features (none with ROWS_VARY),
 *            L texts of labels in the order of their bytes; with ROWS_RECIPE the recipe of the
 *            features (feature_recipe.h) as JSON; what is ROWS_KEPT, also the source; the D sizes
 *            of a row's dimensions, int64; zeros up to a multiple of 64 bytes
 *   keys     R records of key_bytes, all that a frame needs (rows_record.h)
 *   ends     only with ROWS_VARY: where the record of each row ends (rows_ends.h)
 *   rows     R records of row_bytes, all that a batch needs (rows_record.h); with ROWS_VARY of as
 *            many as each takes
 *   texts    of each row the label as it was written, where labels are LABEL_REAL, and the group
 *
 * The header, each record and each row's texts have a CRC-32C. A reader refuses other versions. A
 * file never changes: import publishes a new one.
 */
#ifndef LOADER_ROWS_ROWS_HEADER_H
#define LOADER_ROWS_ROWS_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/store/content_digest.h"
#include "loader/store/store.h"

#define ROWS_MAGIC "TMBLROW1"
#define ROWS_VERSION 1
#define ROWS_ALIGNMENT 64

enum rows_flag {
    ROWS_IDS = 1,         /* there is an id column, stored in the keys; else ids are row numbers */
    ROWS_CONSECUTIVE = 2, /* row r has id first_id + r */
    ROWS_WEIGHTS = 4,
    ROWS_GROUPS = 8,
    ROWS_KEPT = 16,    /* a row cache (loader/cache): has a key, and names the source of its rows */
    ROWS_RECIPE = 32,  /* features were derived from other columns */
    ROWS_VARY = 64,    /* rows differ in length: F is that of the longest, */
    ROWS_LIMITED = 128 /* or, with this, what longest= allowed (LENGTHS_LIMITED) */
};

#define ROWS_KEY_BYTES 16
#define ROWS_DIMENSIONS_LIMIT 16

/* The first bytes of the file. */
struct rows_head {
    char magic[8];
    uint32_t version;
    uint32_t checksum;   /* CRC-32C of the header, computed with 0 here */
    uint64_t head_bytes; /* of the header: offset of the keys */
    uint64_t rows_at;    /* offsets in the file */
    uint64_t texts_at;
    uint64_t file_bytes;
    uint64_t rows;        /* R, at least 1 */
    uint64_t features;    /* F */
    uint64_t label_texts; /* L; 0 except with LABEL_TEXT */
    int64_t first_id;     /* of row 0 */
    uint64_t row_bytes;   /* strides; with ROWS_VARY of a row of F features */
    uint32_t key_bytes;
    uint32_t flags;                             /* of enum rows_flag */
    uint32_t element;                           /* enum element */
    uint32_t label_kind;                        /* enum label_kind */
    char digest[CONTENT_DIGEST_TEXT_BYTES - 1]; /* of all rows (content_digest.h) */
    uint8_t key[ROWS_KEY_BYTES];                /* ROWS_KEPT: of the rows' source; else zeros */
    uint64_t dimensions; /* D, the dimensions of a row, whose sizes multiply to F; 0: [F] */
};

/* A header in memory, with its texts. */
struct rows_header {
    struct rows_head head;
    uint64_t elements;                    /* ROWS_VARY: features of all rows; else 0 */
    const char *columns[4];               /* id, label, weight, group; NULL: none */
    const char **feature_names;           /* [F]; none with ROWS_VARY */
    const char **label_texts;             /* [L + 1]: the last is the end of the texts */
    const char *source;                   /* ROWS_KEPT: as below; else NULL */
    int64_t shape[ROWS_DIMENSIONS_LIMIT]; /* [D] */
    const char *recipe;                   /* ROWS_RECIPE: the recipe as JSON; else NULL */
    char *recipe_text;                    /* owned: its text as written */
    char *memory;                         /* owned: all texts; NULL: borrowed from a store */
    const char **lists;                   /* owned: feature_names, then label_texts */
};

enum { ROWS_COLUMN_ID, ROWS_COLUMN_LABEL, ROWS_COLUMN_WEIGHT, ROWS_COLUMN_GROUP };

/* For the rows of such a store, whose names are borrowed; no texts yet, first id 0. `key`:
 * [ROWS_KEY_BYTES] of a row cache, whose rows are from the store that `source` names as it was
 * opened, one URI per line; NULL: not one. Call rows_header_release() even on error. */
enum error rows_header_init(struct rows_header *header, const struct store_info *info,
                            const uint8_t *key, const char *source) MUST_CHECK;
/* Appends the header's bytes, including the checksum, to `out`. */
enum error rows_header_write(const struct rows_header *header, struct buffer *out) MUST_CHECK;

/* The size of the header of a file of `file_bytes`, from its first bytes (struct rows_head, or
 * all). ERROR_INPUT naming `path`: not a row file, another version, truncated. */
enum error rows_header_measure(const void *bytes, uint64_t file_bytes, const char *path,
                               size_t *ret_bytes) MUST_CHECK;
/* Takes `memory` over, also on failure: the whole header, and room for one more byte. ERROR_INPUT
 * names `path`, what is wrong and where. */
enum error rows_header_parse(struct rows_header *header, char *memory, uint64_t file_bytes,
                             const char *path) MUST_CHECK;
/* Legal on a zeroed struct. */
void rows_header_release(struct rows_header *header);

static inline bool rows_header_has(const struct rows_header *header, enum rows_flag flag)
{
    return (header->head.flags & (uint32_t)flag) != 0;
}

/* Do rows have texts in addition to the header's? */
static inline bool rows_header_has_texts(const struct rows_header *header)
{
    return rows_header_has(header, ROWS_GROUPS) || header->head.label_kind == LABEL_REAL;
}

static inline uint64_t rows_header_key_at(const struct rows_header *header, int64_t row)
{
    return header->head.head_bytes + (uint64_t)row * header->head.key_bytes;
}

/* How many names of features follow. */
static inline uint64_t rows_header_names(const struct rows_header *header)
{
    return rows_header_has(header, ROWS_VARY) ? 0 : header->head.features;
}

/* Unless ROWS_VARY. */
static inline uint64_t rows_header_row_at(const struct rows_header *header, int64_t row)
{
    return header->head.rows_at + (uint64_t)row * header->head.row_bytes;
}

#endif
