/* SPDX-License-Identifier: MIT */
/*
 * What the columns of a Parquet file are to us: id, label, weight, group, features; which of them
 * are read, and where their features lie in a row. A number or text is one feature, a list as many
 * as it has items; one column of bytes is all features of a row, as bytes or 32-bit numbers. Bytes,
 * and lists whose type does not say how long they are, are measured in the first row. Where the URI
 * lets rows differ in length, they are the one column of features, and each row has its own length.
 */
#ifndef LOADER_PARQUET_PARQUET_COLUMNS_H
#define LOADER_PARQUET_PARQUET_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/parquet/arrow_type.h"
#include "loader/store/column_role.h"
#include "loader/store/element.h"
#include "loader/store/row_limit.h"

struct parquet_column {
    const char *name; /* borrowed from names */
    int place;        /* in the schema */
    enum column_role role;
    struct arrow_type type;
    bool is_bytes;          /* a feature whose values are integers from 0 to 255, none null */
    bool varies;            /* the rows say how many features it has, or what its bytes hold */
    size_t first, features; /* of a row's features, these are its; of the ragged column about how
                             * many a row has, 0 until that is known */
};

struct parquet_columns {
    char **names; /* owned; [count]: all columns of the file */
    size_t count;
    struct parquet_column *read; /* owned; [read_count]: those with a role, as the file has them */
    size_t read_count;
    const struct parquet_column *key_of[COLUMN_ROLES]; /* id, label, weight, group; NULL: none */
    bool blob;                                         /* one column of bytes has all features, */
    enum element element;          /* of this type; of numbers i32, or else u8 */
    bool element_told;             /* by the URI; else bytes of the first rows are looked at */
    struct row_limit limit;        /* as the URI says; zeroed: rows are alike */
    struct parquet_column *ragged; /* the features of rows that differ in length; NULL: rows are
                                    * alike, or keys alone are read */
    size_t features;               /* F; 0 with `ragged` */
    const char **feature_names;    /* owned; [F], texts and list in one block */
};

/* `schema` has all columns; `keys_only`: features are not read. ERROR_USAGE: the choice fits no
 * columns; ERROR_INPUT: a column that is wanted holds what cannot be. Messages do not name the
 * file. */
enum error parquet_columns_init(struct parquet_columns *columns, const struct arrow_schema *schema,
                                const struct column_choice *choice, bool keys_only) MUST_CHECK;
void parquet_columns_release(struct parquet_columns *columns);

/* All columns are measured: counts features, and names them. */
enum error parquet_columns_finish(struct parquet_columns *columns) MUST_CHECK;

#endif
