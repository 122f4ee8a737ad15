/* SPDX-License-Identifier: MIT */
/*
 * A recipe met a store: which of its columns each column of features is. Then the door through
 * which a kind of store hands over a row's values one by one, whatever it keeps them as: they are
 * learnt from, or become the row's features.
 *
 * The plan does not change once it is made: any thread. A learner is one thread's.
 */
#ifndef LOADER_STORE_CELL_PLAN_H
#define LOADER_STORE_CELL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "loader/store/column_role.h"
#include "loader/store/feature_recipe.h"
#include "loader/store/recipe_learner.h"

struct cell_plan {
    struct feature_recipe *recipe; /* kept; NULL: features are numbers as they stand */
    uint32_t *columns;             /* owned; [count]: of each column of features, the recipe's */
    size_t count;
};

/* Gives the roles that the choice's recipe changes: a column of features that it does not have is
 * ignored. Without a recipe, and where its features are there instead of its columns (what pull
 * wrote), there is no plan. ERROR_INPUT: a column of the recipe is not there; ERROR_USAGE: the
 * choice says what elements are, too. */
enum error cell_plan_init(struct cell_plan *plan, const struct column_choice *choice,
                          const struct column_names *columns, enum column_role *roles) MUST_CHECK;
void cell_plan_release(struct cell_plan *plan);

static inline bool cell_plan_learns(const struct cell_plan *plan)
{
    return plan->recipe && plan->recipe->learner;
}
/* Features of a row: of the recipe; while it is learnt, columns. */
static inline size_t cell_plan_features(const struct cell_plan *plan)
{
    return cell_plan_learns(plan) ? plan->count : plan->recipe->features;
}

/* ---- one row ------------------------------------------------------------ */

/* Where its values go. */
struct cell_row {
    const struct cell_plan *plan;
    struct recipe_learner *learner; /* NULL: to `features` */
    void *features;                 /* [F] floats, at any address */
};

#define CELL_WANTED_BYTES 320 /* what belongs there, for a message: "a number, or missing= ..." */

/* Before the first value. */
void cell_row_begin(const struct cell_row *row);
/* The value of the `at`th column of features. False: it makes the row a bad one; *wanted says what
 * would not. A number's `text` is how one writes it, where cell_row_wants_text(). */
bool cell_row_text(const struct cell_row *row, size_t at, const char *text, size_t length,
                   char wanted[CELL_WANTED_BYTES]);
bool cell_row_number(const struct cell_row *row, size_t at, double value, const struct text *text,
                     char wanted[CELL_WANTED_BYTES]);
bool cell_row_missing(const struct cell_row *row, size_t at, char wanted[CELL_WANTED_BYTES]);
bool cell_row_wants_text(const struct cell_row *row, size_t at);

#endif
