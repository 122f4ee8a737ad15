/* SPDX-License-Identifier: MIT */
/*
 * What `tombola-loader import` notes in an SQLite file about the table it made, so that opening
 * the file need not read all of it. In the file: a table `tombola` of (name, value), and for text
 * labels a table `tombola_labels`.
 *
 * A file may hold several such tables. The facts of the one that was imported last stand as they
 * are, those of another table T are named "T/rows", "T/digest" and so on, its labels in "T/labels".
 *
 * The facts hold while the file's change counter is the one they name: SQLite counts it up with
 * every transaction, so a file that was written to since is scanned again.
 *
 * The imported table itself: id INTEGER PRIMARY KEY, label (INTEGER or TEXT) where there are
 * labels, weight REAL and "group" TEXT where the source named them, features BLOB: F bytes, or F
 * little-endian 32-bit floats or integers; and an index over all but the features, named
 * TABLE_keys, so that a frame is built without reading them.
 */
#ifndef LOADER_SQLITE_SQLITE_FACTS_H
#define LOADER_SQLITE_SQLITE_FACTS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/content_digest.h"
#include "loader/store/feature_recipe.h"
#include "loader/store/label_dictionary.h"
#include "loader/store/row_limit.h"
#include "loader/store/store.h"

/* Tables whose rows differ in length are of format 2, others of 1. */
#define SQLITE_FACTS_FORMAT 2

struct sqlite_facts {
    bool there;   /* the file has facts about the table that was asked for */
    bool fresh;   /* ... and was not written to since */
    bool is_last; /* it is the one that was imported last */
    char *table;  /* owned */
    int64_t rows;
    size_t features;
    struct row_limit limit; /* where rows differ in length; else zeroed, as both below */
    uint64_t elements;      /* of all rows */
    size_t longest;
    enum element element;
    enum label_kind label_kind;
    bool has_weight, has_group;
    char **feature_names; /* owned; [features], none where rows differ in length */
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    struct feature_recipe *recipe; /* owned; what the features were made by; NULL: as they stood */
};

/* Reads them; !there when the file has none, or none about the table (`table` NULL: about the one
 * that was imported last). `changes`: the file's change counter. ERROR_INPUT when they are damaged
 * or of a later format. */
enum error sqlite_facts_read(struct sqlite_facts *facts, sqlite3 *connection, const char *path,
                             const char *table, uint32_t changes) MUST_CHECK;
void sqlite_facts_release(struct sqlite_facts *facts);

/* The label texts of a table with LABEL_TEXT into `labels`, finished. */
enum error sqlite_facts_read_labels(const struct sqlite_facts *facts, sqlite3 *connection,
                                    const char *path, struct label_dictionary *labels) MUST_CHECK;

/* Writes those of a table that was just imported. Those of other tables stay, and are as fresh as
 * they were when the file counted `before` changes; `changes`: what it will count when all is
 * written. */
enum error sqlite_facts_write(const char *table, const struct store_info *info, const char *digest,
                              uint32_t before, uint32_t changes, sqlite3 *connection,
                              const char *path) MUST_CHECK;

#endif
