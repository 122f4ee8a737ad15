/* SPDX-License-Identifier: MIT */
/*
 * The roles of a Parquet file's columns (id, label, weight, group, features), which of them are
 * read, and where their features go in a row. A number or text is one feature, a list as many as
 * its items; one column of bytes holds all of a row's features, as bytes or 32-bit numbers. Bytes,
 * and lists whose type does not give their length, are measured in the first row. If the URI lets
 * rows differ in length, they are the only column of features, and each row has its own length.
 */
#ifndef LOADER_PARQUET_PARQUET_COLUMNS_H
#define LOADER_PARQUET_PARQUET_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/column/column_role.h"
#include "loader/column/element.h"
#include "loader/column/row_limit.h"
#include "loader/parquet/arrow_type.h"

struct parquet_column {
    const char *name; /* borrowed from names */
    int place;        /* in the schema */
    enum column_role role;
    struct arrow_type type;
    bool is_bytes;          /* a feature with values 0 to 255, integers, no nulls */
    bool varies;            /* its number of features, or what its bytes hold, is found from the
                             * rows */
    size_t first, features; /* offset and number of its features in a row; for the ragged column
                             * about how many a row has, 0 until known */
};

struct parquet_columns {
    char **names; /* owned; [count]: all columns of the file */
    size_t count;
    struct parquet_column *read; /* owned; [read_count]: those with a role, in file order */
    size_t read_count;
    const struct parquet_column *key_of[COLUMN_ROLES]; /* id, label, weight, group; NULL: none */
    bool blob;                                         /* one column of bytes holds all features, */
    enum element element;          /* of this type; for numbers i32, or else u8 */
    bool element_told;             /* given by the URI; else the first rows' bytes are examined */
    struct row_limit limit;        /* as the URI says; zeroed: all rows alike */
    struct parquet_column *ragged; /* the features of rows that differ in length; NULL: rows are
                                    * alike, or only keys are read */
    size_t features;               /* F; 0 with `ragged` */
    const char **feature_names;    /* owned; [F], list and texts in one block */
};

/* `schema` has all columns; `keys_only`: features are not read. ERROR_USAGE: the choice matches no
 * columns; ERROR_INPUT: a selected column has an unsuitable type. Messages do not name the file. */
enum error parquet_columns_init(struct parquet_columns *columns, const struct arrow_schema *schema,
                                const struct column_choice *choice, bool keys_only) MUST_CHECK;
void parquet_columns_release(struct parquet_columns *columns);

/* All columns are measured: counts and names the features. */
enum error parquet_columns_finish(struct parquet_columns *columns) MUST_CHECK;

#endif
