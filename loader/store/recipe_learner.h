/* SPDX-License-Identifier: MIT */
/*
 * Learning a recipe: which columns are texts, their categories, and what fills missing values of
 * the others. All rows are read once, for medians MEDIAN_ROUNDS times. Each thread learns by
 * itself; what comes out does not depend on the order of rows, nor on how threads divide them, nor
 * on the kind of store: sums are exact (exact_sum.h), texts sorted.
 *
 * Memory: the different texts of a column, up to a limit; 100 bytes a column, with medians 4 KiB.
 */
#ifndef LOADER_STORE_RECIPE_LEARNER_H
#define LOADER_STORE_RECIPE_LEARNER_H

#include "common/text.h"
#include "loader/store/column_role.h"
#include "loader/store/feature_recipe.h"

struct recipe_learner;

/* A store's columns of features, of the first store: they become the recipe's. ERROR_USAGE: onehot=
 * names none of them. */
enum error recipe_learner_begin(struct feature_recipe *recipe,
                                const struct column_names *columns) MUST_CHECK;

/* A thread's own; NULL: ERROR_MEMORY. */
struct recipe_learner *recipe_learner_new(const struct feature_recipe *recipe);
/* What a thread has learnt goes to the recipe; a lack of memory is recipe_learner_next()'s to say.
 * Any thread. NULL is legal. */
void recipe_learner_merge(struct feature_recipe *recipe, struct recipe_learner *learner);
/* It is not to be made after all; legal at any time before feature_recipe_free(). */
void recipe_learner_abandon(struct feature_recipe *recipe);
/* NULL is legal. */
void recipe_learner_free(struct recipe_learner *learner);

/* One value of a column of the recipe. */
void recipe_learner_text(struct recipe_learner *learner, size_t column, const char *text,
                         size_t length);
/* `text`: the number as one writes it, wanted where recipe_learner_wants_text(). */
void recipe_learner_number(struct recipe_learner *learner, size_t column, double value,
                           const struct text *text);
bool recipe_learner_wants_text(const struct recipe_learner *learner, size_t column);

/* All rows were read: *ret_again: once more, else the recipe is made. ERROR_INPUT naming the
 * column: it has too many categories, or none, or no number. */
enum error recipe_learner_next(struct feature_recipe *recipe, bool *ret_again) MUST_CHECK;

#endif
