/* SPDX-License-Identifier: MIT */
#include "loader/column/cell_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/column/feature.h"

/* ---- a store's columns -------------------------------------------------- */

static size_t count_features(const struct column_names *columns, const enum column_role *roles)
{
    size_t count = 0;
    for (size_t i = 0; i < columns->count; i++)
        count += roles[i] == COLUMN_FEATURE;
    return count;
}

/* The feature column of that name; the columns' count: none. Tries the next one from *from on
 * first: names usually come in the columns' order, and there may be 100,000 of each. */
static size_t find(const struct column_names *columns, const enum column_role *roles,
                   const char *name, size_t *from)
{
    size_t at = *from;
    while (at < columns->count && roles[at] != COLUMN_FEATURE)
        at++;
    if (at == columns->count || strcmp(columns->names[at], name) != 0)
        at = column_names_find(columns, name, strlen(name));
    if (at >= columns->count || roles[at] != COLUMN_FEATURE)
        return columns->count;
    *from = at + 1;
    return at;
}

/* Are all features of the recipe columns here? */
static bool is_made_already(const struct feature_recipe *recipe, const struct column_names *columns,
                            const enum column_role *roles)
{
    size_t found = 0, from = 0;
    if (recipe->learner)
        return false;
    while (found < recipe->features &&
           find(columns, roles, recipe->names[found], &from) < columns->count)
        found++;
    return found == recipe->features;
}

static enum error refuse_missing(const struct column_names *columns, const char *name)
{
    char shown[TEXT_QUOTE_BYTES], names[NAME_LIST_BYTES];
    return error_set(ERROR_INPUT,
                     "there is no column of features %s, of which missing= and onehot= were "
                     "learnt; there %s %s",
                     text_quote(shown, sizeof(shown), name, strlen(name)),
                     text_plural((int64_t)columns->count, "is", "are"),
                     name_list(columns->names, columns->count, names));
}

/* The recipe's column for each column of the store, UINT32_MAX: none; *ret_missing: a name without
 * one. */
static void match(const struct feature_recipe *recipe, const struct column_names *columns,
                  const enum column_role *roles, uint32_t *places, const char **ret_missing)
{
    for (size_t i = 0; i < columns->count; i++)
        places[i] = UINT32_MAX;
    *ret_missing = NULL;
    size_t from = 0;
    for (size_t i = 0; i < recipe->count; i++) {
        size_t at = find(columns, roles, recipe->columns[i].name, &from);
        if (at < columns->count && places[at] == UINT32_MAX)
            places[at] = (uint32_t)i;
        else if (!*ret_missing)
            *ret_missing = recipe->columns[i].name;
    }
}

static enum error begin(struct feature_recipe *recipe, const struct column_names *columns,
                        const enum column_role *roles)
{
    size_t count = 0;
    const char **names = array_new(columns->count, sizeof(*names), "columns of features");
    if (!names)
        return ERROR_MEMORY;
    for (size_t i = 0; i < columns->count; i++) {
        if (roles[i] == COLUMN_FEATURE)
            names[count++] = columns->names[i];
    }
    struct column_names features = {.names = names, .count = count};
    enum error error = recipe_learner_begin(recipe, &features);
    free(names);
    return error;
}

/* Reduces `places` from all columns to the features; the others are ignored. */
static void keep_places(struct cell_plan *plan, uint32_t *places,
                        const struct column_names *columns, enum column_role *roles)
{
    for (size_t i = 0; i < columns->count; i++) {
        if (places[i] != UINT32_MAX)
            places[plan->count++] = places[i];
        else if (roles[i] == COLUMN_FEATURE)
            roles[i] = COLUMN_IGNORED;
    }
    plan->columns = places;
}

enum error cell_plan_init(struct cell_plan *plan, const struct column_choice *choice,
                          const struct column_names *columns, enum column_role *roles)
{
    struct feature_recipe *recipe = choice->recipe;
    *plan = (struct cell_plan){.recipe = NULL};
    const char *missing = NULL;
    enum error error = OK;
    if (!recipe)
        return OK;
    if (choice->element.told)
        return error_set(ERROR_USAGE,
                         "missing= or onehot= with element=%s: features that they "
                         "make are 32-bit floats",
                         element_names[choice->element.element]);
    if (!recipe->columns && count_features(columns, roles) == 0)
        return error_set(ERROR_INPUT, "there is no column of features");
    if (!recipe->columns)
        error = begin(recipe, columns, roles);
    if (error)
        return error;
    uint32_t *places = array_new(columns->count, sizeof(*places), "columns of features");
    if (!places)
        return ERROR_MEMORY;
    match(recipe, columns, roles, places, &missing);
    if (missing) {
        free(places);
        return is_made_already(recipe, columns, roles) ? OK : refuse_missing(columns, missing);
    }
    keep_places(plan, places, columns, roles);
    plan->recipe = recipe;
    feature_recipe_keep(recipe);
    return OK;
}

void cell_plan_release(struct cell_plan *plan)
{
    feature_recipe_free(plan->recipe);
    free(plan->columns);
    *plan = (struct cell_plan){.recipe = NULL};
}

/* ---- one row ------------------------------------------------------------ */

static const struct recipe_column *column_of(const struct cell_row *row, size_t at)
{
    return &row->plan->recipe->columns[row->plan->columns[at]];
}

static void put(const struct cell_row *row, size_t feature, float value)
{
    memcpy((uint8_t *)row->features + feature * sizeof(value), &value, sizeof(value));
}

void cell_row_begin(const struct cell_row *row)
{
    if (!row->learner)
        memset(row->features, 0, row->plan->recipe->features * sizeof(float));
}

static bool want(char wanted[CELL_WANTED_BYTES], const char *what)
{
    snprintf(wanted, CELL_WANTED_BYTES, "%s", what);
    return false;
}

bool cell_row_missing(const struct cell_row *row, size_t at, char wanted[CELL_WANTED_BYTES])
{
    const struct feature_recipe *recipe = row->plan->recipe;
    const struct recipe_column *column = column_of(row, at);
    if (row->learner)
        return true;
    if (recipe->request.missing == MISSING_BAD)
        return want(wanted, column->is_category ? "a text" : feature_wanted(false, ELEMENT_F32));
    if (!column->is_category)
        put(row, column->first, column->fill);
    return true;
}

static bool take_category(const struct cell_row *row, size_t at, const char *text, size_t length,
                          char wanted[CELL_WANTED_BYTES])
{
    struct feature_recipe *recipe = row->plan->recipe;
    const struct recipe_column *column = column_of(row, at);
    char names[NAME_LIST_BYTES];
    size_t number = recipe_column_find(column, text, length);
    if (number < column->count) {
        put(row, column->first + number, 1);
        return true;
    }
    if (!text_is_utf8(text, length))
        return want(wanted, "UTF-8 text without NUL");
    if (!recipe->request.unseen_is_bad) {
        feature_recipe_note_unseen(recipe, row->plan->columns[at], text, length);
        return true;
    }
    snprintf(wanted, CELL_WANTED_BYTES, "a category that training saw, %.280s,",
             name_list((const char *const *)column->categories, column->count, names));
    return false;
}

static bool take_number(const struct cell_row *row, size_t at, double value,
                        char wanted[CELL_WANTED_BYTES])
{
    if (!feature_fits(value, ELEMENT_F32))
        return want(wanted, feature_wanted(true, ELEMENT_F32));
    put(row, column_of(row, at)->first, (float)value);
    return true;
}

bool cell_row_text(const struct cell_row *row, size_t at, const char *text, size_t length,
                   char wanted[CELL_WANTED_BYTES])
{
    double value = 0;
    bool may_miss = row->plan->recipe->request.missing != MISSING_BAD;
    if (row->learner) {
        recipe_learner_text(row->learner, row->plan->columns[at], text, length);
        return true;
    }
    if (length == 0 || (may_miss && feature_is_missing(text, length)))
        return cell_row_missing(row, at, wanted);
    if (column_of(row, at)->is_category)
        return take_category(row, at, text, length, wanted);
    if (text_parse_real(text, length, &value))
        return take_number(row, at, value, wanted);
    return want(wanted, feature_wanted(text_is_real(text, length), ELEMENT_F32));
}

bool cell_row_number(const struct cell_row *row, size_t at, double value, const struct text *text,
                     char wanted[CELL_WANTED_BYTES])
{
    if (isnan(value))
        return cell_row_missing(row, at, wanted);
    if (row->learner) {
        recipe_learner_number(row->learner, row->plan->columns[at], value, text);
        return true;
    }
    return column_of(row, at)->is_category
               ? take_category(row, at, text->data, text->length, wanted)
               : take_number(row, at, value, wanted);
}

bool cell_row_wants_text(const struct cell_row *row, size_t at)
{
    return row->learner ? recipe_learner_wants_text(row->learner, row->plan->columns[at])
                        : column_of(row, at)->is_category;
}
