/* SPDX-License-Identifier: MIT */
/*
 * The columns of a CSV file: names and roles. From the header line, or numbered from 0 ("0", "1",
 * ...) without one. Immutable once made.
 */
#ifndef LOADER_CSV_CSV_COLUMNS_H
#define LOADER_CSV_CSV_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/column/cell_plan.h"
#include "loader/column/column_role.h"
#include "loader/column/row_limit.h"
#include "loader/csv/csv_split.h"

/* Adjacent columns of one role. */
struct column_run {
    enum column_role role;
    size_t first, count;
};

struct csv_columns {
    bool header;
    size_t count;
    char **names;            /* owned; [count] */
    enum column_role *roles; /* owned; [count] */
    struct column_run *runs; /* owned; [run_count] */
    size_t run_count;
    const char **feature_names; /* owned list of borrowed names; [features] */
    size_t features;            /* per row, unless rows differ in length */
    /* If they do, every field that is not a key is a feature, however many there are, and empty
     * ones at a row's end are none. The last run is then one of features, perhaps of none. */
    struct row_limit limit;
    struct element_choice element; /* as the URI says: i32, or by default u8 */
    size_t keys_end;               /* fields that every row has: up to the last key */
    struct cell_plan plan;         /* of feature columns; its recipe makes other features of them */
    ptrdiff_t column_of[COLUMN_ROLES]; /* id, label, weight, group; -1: none */
    size_t unnamed; /* features without a name in the header, named by their number */
    size_t first_unnamed;
};

/* The fewest fields of a row; 1 or more. */
static inline size_t csv_columns_least(const struct csv_columns *columns)
{
    size_t least = row_limit_varies(&columns->limit) ? columns->keys_end : columns->count;
    return least > 0 ? least : 1;
}

/* What the URI says of the header line. */
enum csv_header { CSV_HEADER_ASSUMED, CSV_HEADER_YES, CSV_HEADER_NO };

/* From the fields of the first record. ERROR_INPUT: the header has a duplicate name, is not UTF-8,
 * or is only assumed and looks like a row; ERROR_USAGE: as column_roles_assign(); also errors of
 * cell_plan_init(). Messages do not name the file. */
enum error csv_columns_init(struct csv_columns *columns, const struct csv_splitter *first,
                            enum csv_header header, const struct column_choice *choice) MUST_CHECK;
/* ERROR_INPUT: the first record is one field that contains other common delimiters, so the
 * delimiter cannot be assumed. The message does not name the file. */
enum error csv_columns_check_delimiter(const struct csv_splitter *first) MUST_CHECK;
void csv_columns_release(struct csv_columns *columns);

/* Advice for a field that is not UTF-8 without NUL. */
const char *csv_encoding_advice(const struct text *field);

/* For messages: `column "p3"`, or `column 3` without a header. Returns `out`. */
#define COLUMN_TEXT_BYTES 288
const char *csv_column_text(const struct csv_columns *columns, size_t column,
                            char out[COLUMN_TEXT_BYTES]);

#endif
