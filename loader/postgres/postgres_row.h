/* SPDX-License-Identifier: MIT */
/*
 * One row as the server sends it in binary form - id, label, weight, group, features - into the
 * same ids, label texts and features that CSV text would give. Knows the bytes only, not libpq: a
 * value that is not as long as its type says is refused, whatever the server is.
 *
 * As in CSV, a broken key is ERROR_INPUT, and a feature that is no number makes the row ROW_BAD.
 * Messages name the column, not table and id.
 */
#ifndef LOADER_POSTGRES_POSTGRES_ROW_H
#define LOADER_POSTGRES_POSTGRES_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/cell_plan.h"
#include "loader/store/row_limit.h"
#include "loader/store/store_row.h"

/* How a value comes. */
enum postgres_form {
    POSTGRES_INTEGER, /* 2, 4 or 8 bytes, big-endian */
    POSTGRES_REAL,    /* 4 or 8 bytes, big-endian */
    POSTGRES_BOOLEAN, /* one byte */
    POSTGRES_TEXT,
    POSTGRES_BYTES
};

struct postgres_value {
    const uint8_t *bytes; /* NULL: it is null */
    size_t length;
};

/* The columns of the SELECT, in this order; a name NULL: there is none. */
struct postgres_format {
    const char *id, *label, *weight, *group; /* label and group come as text */
    enum postgres_form weight_form;
    const char *const *feature_names;        /* [feature_columns] */
    const enum postgres_form *feature_forms; /* [feature_columns] */
    size_t feature_columns;
    bool blob;                      /* one column of bytes holds all features */
    enum element element;           /* of these bytes; of numbers i32, or else u8 */
    size_t features;                /* F */
    struct row_limit limit;         /* where the bytes of rows differ in length; else zeroed */
    size_t room;                    /* such bytes are only looked at when they hold more features */
    const struct cell_plan *plan;   /* of the columns of features; NULL: numbers as they stand */
    struct recipe_learner *learner; /* borrowed; what learns from the plan; else NULL */
};

/* Values of a whole row, of a row of keys only. */
size_t postgres_value_count(const struct postgres_format *format, bool keys_only);

/* `features` NULL: keys only; else [F] of `element`: for ELEMENT_U8 a row that is not is_u8 leaves
 * them undefined, and so does a bad one. With a plan they are floats, whatever `element` is. */
enum error postgres_decode_row(const struct postgres_format *format,
                               const struct postgres_value *values, enum element element,
                               void *features, struct store_row *ret_row) MUST_CHECK;

/* COPY BINARY: what stands in front of the first row. Moves *at behind it. */
enum error postgres_copy_head(const uint8_t *bytes, size_t length, size_t *at) MUST_CHECK;
/* The row at *at, with `count` values; *ret_end at the mark behind the last row. */
enum error postgres_copy_row(const uint8_t *bytes, size_t length, size_t *at, size_t count,
                             struct postgres_value *values, bool *ret_end) MUST_CHECK;

#endif
