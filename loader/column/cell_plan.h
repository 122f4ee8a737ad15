/* SPDX-License-Identifier: MIT */
/*
 * A recipe applied to a store: maps the store's feature columns to the recipe's. Also the interface
 * through which a kind of store passes a row's values one by one, whatever their form: they are
 * learned from, or become the row's features.
 *
 * The plan does not change once made: any thread. A learner belongs to one thread.
 */
#ifndef LOADER_COLUMN_CELL_PLAN_H
#define LOADER_COLUMN_CELL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "loader/column/column_role.h"
#include "loader/column/feature_recipe.h"
#include "loader/column/recipe_learner.h"

struct cell_plan {
    struct feature_recipe *recipe; /* kept; NULL: features are numbers as they are */
    uint32_t *columns;             /* owned; [count]: the recipe's column of each feature column */
    size_t count;
};

/* Adjusts roles for the choice's recipe: feature columns that it lacks are ignored. There is no
 * plan without a recipe, or if its features are present instead of its columns (as written by
 * pull). ERROR_INPUT: a column of the recipe is missing; ERROR_USAGE: the choice also gives an
 * element. */
enum error cell_plan_init(struct cell_plan *plan, const struct column_choice *choice,
                          const struct column_names *columns, enum column_role *roles) MUST_CHECK;
void cell_plan_release(struct cell_plan *plan);

static inline bool cell_plan_learns(const struct cell_plan *plan)
{
    return plan->recipe && plan->recipe->learner;
}
/* Features per row: the recipe's; while it is being learned, columns. */
static inline size_t cell_plan_features(const struct cell_plan *plan)
{
    return cell_plan_learns(plan) ? plan->count : plan->recipe->features;
}

/* ---- one row ------------------------------------------------------------ */

/* Where a row's values go. */
struct cell_row {
    const struct cell_plan *plan;
    struct recipe_learner *learner; /* NULL: into `features` */
    void *features;                 /* [F] floats, any alignment */
};

#define CELL_WANTED_BYTES 320 /* what is expected, for a message: "a number, or missing= ..." */

/* Call before the first value. */
void cell_row_begin(const struct cell_row *row);
/* Passes the value of feature column `at`. False: it makes the row bad; *wanted says what is
 * expected. A number's `text` is its written form, if cell_row_wants_text(). */
bool cell_row_text(const struct cell_row *row, size_t at, const char *text, size_t length,
                   char wanted[CELL_WANTED_BYTES]);
bool cell_row_number(const struct cell_row *row, size_t at, double value, const struct text *text,
                     char wanted[CELL_WANTED_BYTES]);
bool cell_row_missing(const struct cell_row *row, size_t at, char wanted[CELL_WANTED_BYTES]);
bool cell_row_wants_text(const struct cell_row *row, size_t at);

#endif
