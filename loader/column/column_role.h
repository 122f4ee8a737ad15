/* SPDX-License-Identifier: MIT */
/*
 * The roles of a table's columns, and how a store's URI gives them: `id=`, `label=`, `weight=`,
 * `group=` name one column each, `features=` a list "a,b,c". Defaults: columns named "id" and
 * "label" if they exist, no weight, no group, all others as features, in the table's order. An
 * empty name (`label=`) means none. If no column matches a name exactly, one that differs only in
 * (ASCII) case does, in every kind of store.
 */
#ifndef LOADER_COLUMN_COLUMN_ROLE_H
#define LOADER_COLUMN_COLUMN_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/column/element.h"
#include "loader/column/row_limit.h"

struct feature_recipe;
struct read_options;

enum column_role {
    COLUMN_FEATURE,
    COLUMN_IGNORED,
    COLUMN_ID,
    COLUMN_LABEL,
    COLUMN_WEIGHT,
    COLUMN_GROUP
};

#define COLUMN_ROLES 6

/* By role: the name in the URI; NULL: none. Borrowed from the URI. */
struct column_choice {
    const char *names[COLUMN_ROLES];
    /* Names of features, or the weight: no other feature is read. Count 0: all are. */
    const char *const *only;
    size_t only_count;
    struct feature_recipe *recipe; /* cell_plan.h; NULL: none */
    struct row_limit limit;        /* set by kinds of store whose rows may differ in length, */
    struct element_choice element; /* and by those whose URI may say what features are */
};

/* `options`: which of the features are read, and their recipe. */
void column_choice_read(struct column_choice *choice, struct uri *uri,
                        const struct read_options *options);
/* If the URI does not say: the columns of an imported table, as recorded by import. */
void column_choice_imported(struct column_choice *choice, bool has_weight, bool has_group,
                            bool has_features);

struct column_names {
    const char *const *names; /* [count] */
    size_t count;
};

/* The column with that name, else the one that differs only in case; count: none, or not unique. */
size_t column_names_find(const struct column_names *columns, const char *wanted, size_t length);

/* Gives every column its role. `defaults`: look for "id" and "label". `only` has no effect if one
 * of its names is neither a feature's nor the weight's: a BLOB's features are not named after
 * columns, and the caller, who sees all names, reports that. ERROR_USAGE: the choice names a
 * missing column, or one column twice, or a name (also a default one) matches two columns; the
 * message does not name the table. */
enum error column_roles_assign(const struct column_names *columns,
                               const struct column_choice *choice, bool defaults,
                               enum column_role *ret_roles) MUST_CHECK;

/* Takes the first name of the list at *at, "a,b,c", and moves *at behind it. A name with a comma,
 * or one that begins with a quote, is quoted as in CSV: "a,b"; "" is a quote in it. Changes the
 * text, of which the name is a part. *ret_name: NULL at the end. ERROR_USAGE: `key`, for the
 * message, has a quote without its end. */
enum error column_list_next(char **at, const char *key, const char **ret_name) MUST_CHECK;
/* How to write such names, to end a message; "" if there are none. */
const char *column_list_hint(const struct column_names *columns);

/* "0", "1", ...: names for unnamed columns, [count], list and texts in one block; free() it. NULL:
 * the error is set. */
const char **column_numbers_new(size_t count);

/* Lists the names of `count` things for a message: "a", "b", "c" and 12 more. Returns `out`. */
#define NAME_LIST_BYTES 512
const char *name_list(const char *const names[], size_t count, char out[NAME_LIST_BYTES]);

#endif
