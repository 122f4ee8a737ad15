/* SPDX-License-Identifier: MIT */
/*
 * What a column of a table is taken for, and how a store's URI says so: `id=`, `label=`,
 * `weight=`, `group=` name one column each, `features=` a list "a,b,c". Not named: the columns
 * "id" and "label" where there are such, no weight, no group, and all others as features, in the
 * table's order. An empty name (`label=`) means none. Where no column has a name exactly, the one
 * that differs from it in upper and lower case (of ASCII) alone is meant, in every kind of store.
 */
#ifndef LOADER_STORE_COLUMN_ROLE_H
#define LOADER_STORE_COLUMN_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/store/element.h"
#include "loader/store/row_limit.h"

struct feature_recipe;

enum column_role {
    COLUMN_FEATURE,
    COLUMN_IGNORED,
    COLUMN_ID,
    COLUMN_LABEL,
    COLUMN_WEIGHT,
    COLUMN_GROUP
};

#define COLUMN_ROLES 6

/* By role: what the URI says; NULL: nothing. Borrowed from the URI. */
struct column_choice {
    const char *names[COLUMN_ROLES];
    /* Features, or the weight: no other feature is read. A count of 0: all are. */
    const char *const *only;
    size_t only_count;
    struct feature_recipe *recipe; /* cell_plan.h; NULL: none */
    struct row_limit limit;        /* set by kinds of store whose rows may differ in length, */
    struct element_choice element; /* and by those where a URI may say what features are */
};

void column_choice_read(struct column_choice *choice, struct uri *uri);
/* Where the URI says nothing: the columns of a table that import made, which names them itself. */
void column_choice_imported(struct column_choice *choice, bool has_weight, bool has_group,
                            bool has_features);

struct column_names {
    const char *const *names; /* [count] */
    size_t count;
};

/* The column of that name, else the one that differs in upper and lower case alone; the columns'
 * count: there is none, or not one alone. */
size_t column_names_find(const struct column_names *columns, const char *wanted, size_t length);

/* Gives every column its role. `defaults`: "id" and "label" are looked for. `only` changes nothing
 * where one of it is not the name of a feature or the weight: a BLOB's features have names that are
 * no columns', and the caller finds out, who sees all names. ERROR_USAGE: the choice
 * names a column that is not there, or one column for two things, or a name (also a default one)
 * fits two columns alike; it does not name the table. */
enum error column_roles_assign(const struct column_names *columns,
                               const struct column_choice *choice, bool defaults,
                               enum column_role *ret_roles) MUST_CHECK;

/* "0", "1", ...: names of columns that have none, [count], texts and list in one block; free() it.
 * NULL: error is set. */
const char **column_numbers_new(size_t count);

/* The names of `count` things for a message: "a", "b", "c" and 12 more. Returns `out`. */
#define NAME_LIST_BYTES 512
const char *name_list(const char *const names[], size_t count, char out[NAME_LIST_BYTES]);

#endif
