/* SPDX-License-Identifier: MIT */
/*
 * Decodes one row of an SQLite statement (id, label, weight, group, features; sqlite_table_select)
 * into the same ids, label texts and features as from CSV text.
 *
 * Features are in one BLOB (u8, or little-endian f32 or i32), or in a column each: INTEGER, REAL,
 * or TEXT that is a number. As in CSV, a broken key is ERROR_INPUT, and a feature that is not a
 * number makes the row ROW_BAD. Messages name the column, not file and id.
 */
#ifndef LOADER_SQLITE_SQLITE_ROW_H
#define LOADER_SQLITE_SQLITE_ROW_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/sqlite/sqlite_table.h"
#include "loader/store/store_row.h"

#define SQLITE_ROW_TEXT_BYTES 40

struct sqlite_row {
    struct store_row row; /* label and group: valid until the statement's next step or the next use
                           * of this struct */
    char label_text[SQLITE_ROW_TEXT_BYTES], group_text[SQLITE_ROW_TEXT_BYTES];
};

struct sqlite_format {
    const struct sqlite_table *table; /* borrowed */
    bool blob;                        /* all features in one BLOB */
    enum element element;             /* of the BLOB's bytes; for numbers i32, or else u8:
                                       * determined by their values */
    size_t features;
    struct row_limit limit;         /* if the BLOBs differ in length; else zeroed */
    size_t room;                    /* a BLOB with more features is only measured */
    struct recipe_learner *learner; /* borrowed; learns from the table's plan; or NULL */
};

/* `features` NULL: keys only; else [F] of `element`, undefined if the row is not ROW_OK or, for
 * ELEMENT_U8, not is_u8. With a plan they are floats, whatever `element` is. */
enum error sqlite_decode_row(const struct sqlite_format *format, sqlite3_stmt *statement,
                             enum element element, void *features,
                             struct sqlite_row *ret_row) MUST_CHECK;

#endif
