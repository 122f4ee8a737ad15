/* SPDX-License-Identifier: MIT */
/*
 * What `tombola-loader import` records in an SQLite file about the table it made, so that opening
 * need not read the whole file. In the file: a table `tombola` of (name, value), and for text
 * labels a table `tombola_labels`.
 *
 * A file may hold several such tables. The facts of the last one imported have plain names, those
 * of another table T are named "T/rows", "T/digest" and so on, with labels in "T/labels".
 *
 * The facts are valid while the file's change counter has the value they record: SQLite increments
 * it with every transaction, so a file written to since is scanned again.
 *
 * The imported table itself: id INTEGER PRIMARY KEY, label (INTEGER or TEXT) if there are labels,
 * weight REAL and "group" TEXT if the source named them, features BLOB: F bytes, or F little-endian
 * 32-bit floats or integers; and an index over everything but the features, named TABLE/keys
 * unless another table is, so that a frame is built without reading them.
 */
#ifndef LOADER_SQLITE_SQLITE_FACTS_H
#define LOADER_SQLITE_SQLITE_FACTS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/column/feature_recipe.h"
#include "loader/column/label_dictionary.h"
#include "loader/column/row_limit.h"
#include "loader/store/content_digest.h"
#include "loader/store/store.h"

/* 2 for tables whose rows differ in length, 1 for others. */
#define SQLITE_FACTS_FORMAT 2

struct sqlite_facts {
    bool there;   /* the file has facts about the requested table */
    bool fresh;   /* ... and was not written to since */
    bool is_last; /* it was imported last */
    char *table;  /* owned */
    int64_t rows;
    size_t features;
    struct row_limit limit; /* if rows differ in length; else zeroed, as both below */
    uint64_t elements;      /* of all rows */
    size_t longest;
    enum element element;
    enum label_kind label_kind;
    bool has_weight, has_group;
    char **feature_names; /* owned; [features], none if rows differ in length */
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    struct feature_recipe *recipe; /* owned; the recipe of the features; NULL: unchanged values */
};

/* Reads the facts; !there if the file has none, or none about the table (`table` NULL: the last one
 * imported). `changes`: the file's change counter. ERROR_INPUT: damaged, or of a later format. */
enum error sqlite_facts_read(struct sqlite_facts *facts, sqlite3 *connection, const char *path,
                             const char *table, uint32_t changes) MUST_CHECK;
void sqlite_facts_release(struct sqlite_facts *facts);

/* Reads the label texts of a table with LABEL_TEXT into `labels`, finished. */
enum error sqlite_facts_read_labels(const struct sqlite_facts *facts, sqlite3 *connection,
                                    const char *path, struct label_dictionary *labels) MUST_CHECK;

/* Writes the facts of a table just imported. Those of other tables stay, as fresh as they were at
 * change counter `before`; `changes`: its value when everything is written. */
enum error sqlite_facts_write(const char *table, const struct store_info *info, const char *digest,
                              uint32_t before, uint32_t changes, sqlite3 *connection,
                              const char *path) MUST_CHECK;

#endif
