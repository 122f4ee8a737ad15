/* SPDX-License-Identifier: MIT */
/*
 * Learns a recipe: which columns are texts, their categories, and what fills missing values of the
 * others. All rows are read once, for medians MEDIAN_ROUNDS times. Each thread learns separately;
 * the result does not depend on the order of rows, their distribution over threads, or the kind of
 * store: sums are exact (exact_sum.h), texts sorted.
 *
 * Memory: a column's distinct texts, up to a limit; 100 bytes per column, with medians 4 KiB.
 */
#ifndef LOADER_COLUMN_RECIPE_LEARNER_H
#define LOADER_COLUMN_RECIPE_LEARNER_H

#include "common/text.h"
#include "loader/column/column_role.h"
#include "loader/column/feature_recipe.h"

struct recipe_learner;

/* The feature columns of the first store: they become the recipe's. ERROR_USAGE: onehot= names none
 * of them. */
enum error recipe_learner_begin(struct feature_recipe *recipe,
                                const struct column_names *columns) MUST_CHECK;

/* A learner for one thread; NULL: ERROR_MEMORY. */
struct recipe_learner *recipe_learner_new(const struct feature_recipe *recipe);
/* Merges what a thread has learned into the recipe, and frees the learner; recipe_learner_next()
 * reports a lack of memory. Any thread. NULL is legal. */
void recipe_learner_merge(struct feature_recipe *recipe, struct recipe_learner *learner);
/* Gives up making the recipe; legal at any time before feature_recipe_free(). */
void recipe_learner_abandon(struct feature_recipe *recipe);

/* Adds one value of a column of the recipe. */
void recipe_learner_text(struct recipe_learner *learner, size_t column, const char *text,
                         size_t length);
/* `text`: the number's written form, required if recipe_learner_wants_text(). */
void recipe_learner_number(struct recipe_learner *learner, size_t column, double value,
                           const struct text *text);
bool recipe_learner_wants_text(const struct recipe_learner *learner, size_t column);

/* All rows were read. *ret_again: read them once more, else the recipe is made. ERROR_INPUT naming
 * the column: too many categories, or none, or no number. */
enum error recipe_learner_next(struct feature_recipe *recipe, bool *ret_again) MUST_CHECK;

#endif
