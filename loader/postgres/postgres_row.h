/* SPDX-License-Identifier: MIT */
/*
 * Decodes one row in the server's binary form (id, label, weight, group, features) into the same
 * ids, label texts and features as from CSV text. Knows only bytes, not libpq: refuses a value
 * whose length does not match its type, whatever server sent it.
 *
 * As in CSV, a broken key is ERROR_INPUT, and a feature that is not a number makes the row ROW_BAD.
 * Messages name the column, not table and id.
 */
#ifndef LOADER_POSTGRES_POSTGRES_ROW_H
#define LOADER_POSTGRES_POSTGRES_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "loader/column/cell_plan.h"
#include "loader/column/row_limit.h"
#include "loader/store/store_row.h"

/* Encoding of a value. */
enum postgres_form {
    POSTGRES_INTEGER, /* 2, 4 or 8 bytes, big-endian */
    POSTGRES_REAL,    /* 4 or 8 bytes, big-endian */
    POSTGRES_NUMERIC, /* text; infinite if it is beyond a double */
    POSTGRES_BOOLEAN, /* one byte */
    POSTGRES_TEXT,
    POSTGRES_BYTES
};

struct postgres_value {
    const uint8_t *bytes; /* NULL: SQL NULL */
    size_t length;
};

/* The columns of the SELECT, in this order; name NULL: absent. */
struct postgres_format {
    const char *id, *label, *weight, *group;
    enum postgres_form label_form, group_form; /* floats, or else text */
    bool label_is_number, group_is_number;     /* which is then neither NaN nor infinite */
    enum postgres_form weight_form;
    const char *const *feature_names;        /* [feature_columns] */
    const enum postgres_form *feature_forms; /* [feature_columns] */
    size_t feature_columns;
    bool blob;                      /* one column of bytes holds all features */
    enum element element;           /* of these bytes; for numbers i32, or else u8 */
    size_t features;                /* F */
    struct row_limit limit;         /* if rows' bytes differ in length; else zeroed */
    size_t room;                    /* bytes with more features are only measured */
    const struct cell_plan *plan;   /* of the feature columns; NULL: numbers as they are */
    struct recipe_learner *learner; /* borrowed; learns from the plan; or NULL */
};

struct postgres_row {
    struct store_row row; /* label and group: valid as long as the values, and this struct */
    char label_text[TEXT_REAL_BYTES], group_text[TEXT_REAL_BYTES];
};

/* The number of values in a whole row, or in one with only keys. */
size_t postgres_value_count(const struct postgres_format *format, bool keys_only);

/* `features` NULL: keys only; else [F] of `element`; undefined for a bad row and, if `element` is
 * ELEMENT_U8, for one that is not is_u8. With a plan they are floats, whatever `element` is. */
enum error postgres_decode_row(const struct postgres_format *format,
                               const struct postgres_value *values, enum element element,
                               void *features, struct postgres_row *ret_row) MUST_CHECK;

/* COPY BINARY: checks what precedes the first row. Moves *at after it. */
enum error postgres_copy_head(const uint8_t *bytes, size_t length, size_t *at) MUST_CHECK;
/* The row at *at, with `count` values; *ret_end at the end marker. */
enum error postgres_copy_row(const uint8_t *bytes, size_t length, size_t *at, size_t count,
                             struct postgres_value *values, bool *ret_end) MUST_CHECK;

#endif
