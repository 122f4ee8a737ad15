/* SPDX-License-Identifier: MIT */
#include "loader/column/recipe_learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "common/text_set.h"
#include "loader/column/exact_sum.h"
#include "loader/column/feature.h"
#include "loader/column/median_search.h"

enum kind {
    KIND_NUMBER,
    KIND_CATEGORY,
    KIND_EITHER /* not known yet: texts are collected, numbers among them */
};

struct learned {
    enum kind kind;
    uint64_t numbers; /* found in the first round */
    bool texts;       /* a text that is not a number was found */
    bool too_many, too_long;
    char example[64]; /* of such a text */
    struct text_set categories;
    struct exact_sum sum;
    struct median_search *median; /* owned; NULL: not asked for */
};

struct recipe_learner {
    enum missing_rule missing;
    unsigned round;
    struct learned *columns; /* owned; [count] */
    size_t count;
    bool failed; /* memory ran out */
};

/* ---- life --------------------------------------------------------------- */

static void free_learner(struct recipe_learner *learner)
{
    if (!learner)
        return;
    for (size_t i = 0; i < learner->count; i++) {
        text_set_release(&learner->columns[i].categories);
        free(learner->columns[i].median);
    }
    free(learner->columns);
    free(learner);
}

static struct recipe_learner *learner_new(enum missing_rule missing, size_t count)
{
    static const char what[] = "learning what columns hold";
    struct recipe_learner *learner = array_new(1, sizeof(*learner), what);
    if (!learner)
        return NULL;
    learner->missing = missing;
    learner->columns = array_new(count, sizeof(*learner->columns), what);
    learner->count = learner->columns ? count : 0;
    bool there = learner->columns;
    for (size_t i = 0; there && missing == MISSING_MEDIAN && i < count; i++) {
        learner->columns[i].median = array_new(1, sizeof(struct median_search), what);
        there = learner->columns[i].median;
    }
    if (there)
        return learner;
    free_learner(learner);
    return NULL;
}

void recipe_learner_abandon(struct feature_recipe *recipe)
{
    free_learner(recipe->learner);
    recipe->learner = NULL;
}

struct recipe_learner *recipe_learner_new(const struct feature_recipe *recipe)
{
    const struct recipe_learner *all = recipe->learner;
    struct recipe_learner *learner = learner_new(all->missing, all->count);
    if (!learner)
        return NULL;
    learner->round = all->round;
    for (size_t i = 0; i < all->count; i++) {
        learner->columns[i].kind = all->columns[i].kind;
        if (all->columns[i].median)
            median_search_begin(learner->columns[i].median, all->columns[i].median);
    }
    return learner;
}

static enum error refuse_category(const struct column_names *columns, const char *name)
{
    char shown[TEXT_QUOTE_BYTES], names[NAME_LIST_BYTES];
    return error_set(ERROR_USAGE, "onehot=%s names no column of features; they are %s%s",
                     text_quote(shown, sizeof(shown), name, strlen(name)),
                     name_list(columns->names, columns->count, names), column_list_hint(columns));
}

static enum error choose_categories(struct recipe_learner *learner, char *list,
                                    const struct column_names *columns)
{
    const char *name;
    enum error error;
    while (!(error = column_list_next(&list, "onehot", &name)) && name) {
        size_t column = column_names_find(columns, name, strlen(name));
        if (column == columns->count)
            return refuse_category(columns, name);
        learner->columns[column].kind = KIND_CATEGORY;
    }
    return error;
}

/* The columns named by onehot=. */
static enum error choose_kinds(struct feature_recipe *recipe, const struct column_names *columns)
{
    const char *onehot = recipe->request.onehot ? recipe->request.onehot : "";
    struct recipe_learner *learner = recipe->learner;
    bool all = strcmp(onehot, "*") == 0;
    for (size_t i = 0; i < learner->count; i++)
        learner->columns[i].kind = all ? KIND_EITHER : KIND_NUMBER;
    if (all)
        return OK;
    char *list = strdup(onehot);
    if (!list)
        return error_set_memory(strlen(onehot), "names of columns");
    enum error error = choose_categories(learner, list, columns);
    free(list);
    return error;
}

enum error recipe_learner_begin(struct feature_recipe *recipe, const struct column_names *columns)
{
    recipe->columns = array_new(columns->count, sizeof(*recipe->columns), "a recipe of features");
    if (!recipe->columns)
        return ERROR_MEMORY;
    for (; recipe->count < columns->count; recipe->count++) {
        const char *name = columns->names[recipe->count];
        recipe->columns[recipe->count].name = strdup(name);
        if (!recipe->columns[recipe->count].name)
            return error_set_memory(strlen(name), "a column's name");
    }
    recipe->learner = learner_new(recipe->request.missing, columns->count);
    return recipe->learner ? choose_kinds(recipe, columns) : ERROR_MEMORY;
}

/* ---- one value ---------------------------------------------------------- */

static void add_category(struct recipe_learner *learner, struct learned *column, const char *text,
                         size_t length)
{
    if (column->too_many || column->too_long || !text_is_utf8(text, length))
        return; /* the row is bad, which is noticed when it is read */
    if (length > RECIPE_CATEGORY_BYTES_LIMIT)
        column->too_long = true;
    else if (text_set_add(&column->categories, text, length, NULL))
        learner->failed = true;
    column->too_many = column->categories.count > RECIPE_CATEGORIES_LIMIT;
    if (column->too_long || column->too_many)
        text_set_release(&column->categories);
}

static void add_number(struct recipe_learner *learner, struct learned *column, double value)
{
    if (!feature_fits(value, ELEMENT_F32))
        return;
    column->numbers += learner->round == 0;
    if (column->median)
        median_search_add(column->median, learner->round, (float)value);
    else if (learner->missing == MISSING_MEAN)
        exact_sum_add(&column->sum, (float)value);
}

static void note_text(struct learned *column, const char *text, size_t length)
{
    if (!column->texts)
        text_quote(column->example, sizeof(column->example), text, length);
    column->texts = true;
}

void recipe_learner_text(struct recipe_learner *learner, size_t at, const char *text, size_t length)
{
    struct learned *column = &learner->columns[at];
    double value = 0;
    if (length == 0 || (learner->missing != MISSING_BAD && feature_is_missing(text, length)))
        return;
    bool is_number = column->kind != KIND_CATEGORY && text_is_real(text, length);
    if (is_number && text_parse_real(text, length, &value))
        add_number(learner, column, value);
    if (column->kind == KIND_NUMBER || learner->round > 0)
        return;
    if (!is_number && !feature_is_missing(text, length)) /* 1, 2, NA: still a column of numbers */
        note_text(column, text, length);
    add_category(learner, column, text, length);
}

void recipe_learner_number(struct recipe_learner *learner, size_t at, double value,
                           const struct text *text)
{
    struct learned *column = &learner->columns[at];
    if (column->kind != KIND_CATEGORY)
        add_number(learner, column, value);
    if (recipe_learner_wants_text(learner, at))
        add_category(learner, column, text->data, text->length);
}

bool recipe_learner_wants_text(const struct recipe_learner *learner, size_t at)
{
    return learner->round == 0 && learner->columns[at].kind != KIND_NUMBER;
}

/* ---- all of them -------------------------------------------------------- */

static void merge_column(struct recipe_learner *all, struct learned *to, const struct learned *from)
{
    to->numbers += from->numbers;
    if (from->texts && !to->texts)
        memcpy(to->example, from->example, sizeof(to->example));
    to->texts |= from->texts;
    to->too_long |= from->too_long;
    to->too_many |= from->too_many;
    exact_sum_merge(&to->sum, &from->sum);
    if (to->median)
        median_search_merge(to->median, from->median);
    for (size_t i = 0; i < from->categories.count; i++)
        add_category(all, to, from->categories.texts[i].data, from->categories.texts[i].length);
}

void recipe_learner_merge(struct feature_recipe *recipe, struct recipe_learner *learner)
{
    struct recipe_learner *all = recipe->learner;
    if (!learner)
        return;
    pthread_mutex_lock(&recipe->lock);
    all->failed |= learner->failed;
    for (size_t i = 0; i < learner->count; i++)
        merge_column(all, &all->columns[i], &learner->columns[i]);
    pthread_mutex_unlock(&recipe->lock);
    free_learner(learner);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum error take_categories(struct recipe_column *column, const struct text_set *texts)
{
    column->is_category = true;
    column->categories = array_new(texts->count, sizeof(*column->categories), "categories");
    if (!column->categories)
        return ERROR_MEMORY;
    for (; column->count < texts->count; column->count++) {
        column->categories[column->count] = strdup(texts->texts[column->count].data);
        if (!column->categories[column->count])
            return error_set_memory(RECIPE_CATEGORY_BYTES_LIMIT, "a category");
    }
    qsort(column->categories, column->count, sizeof(*column->categories), by_bytes);
    return OK;
}

static enum error refuse_categories(const struct recipe_column *column,
                                    const struct learned *learned)
{
    const char *example = learned->texts ? learned->example : "a number";
    if (learned->too_many)
        return error_set(ERROR_INPUT,
                         "column \"%s\" has more than %d different texts (such as %s), too many "
                         "for a feature each; features= in the URI leaves it out, or onehot= names "
                         "other columns",
                         column->name, RECIPE_CATEGORIES_LIMIT, example);
    return error_set(ERROR_INPUT,
                     "column \"%s\" has a text of more than %d bytes, too long for a category; "
                     "features= in the URI leaves it out",
                     column->name, RECIPE_CATEGORY_BYTES_LIMIT);
}

static enum error refuse_empty(const struct recipe_column *column, const char *what, bool is_number)
{
    return error_set(ERROR_INPUT,
                     "column \"%s\" has no value%s, so that there is no %s; features= in the URI "
                     "leaves it out",
                     column->name, is_number ? " that fits a 32-bit float" : "", what);
}

/* After the first round. */
static enum error decide(struct feature_recipe *recipe, size_t at)
{
    const struct recipe_request *request = &recipe->request;
    struct recipe_column *column = &recipe->columns[at];
    struct learned *learned = &recipe->learner->columns[at];
    if (learned->kind == KIND_CATEGORY || (learned->kind == KIND_EITHER && learned->texts)) {
        learned->kind = KIND_CATEGORY;
        if (learned->too_many || learned->too_long)
            return refuse_categories(column, learned);
        if (learned->categories.count == 0)
            return refuse_empty(column, "category", false);
        return take_categories(column, &learned->categories);
    }
    learned->kind = KIND_NUMBER;
    text_set_release(&learned->categories);
    if (request->missing == MISSING_NUMBER)
        column->fill = request->number;
    if (request->missing != MISSING_MEAN && request->missing != MISSING_MEDIAN)
        return OK;
    if (learned->numbers == 0)
        return refuse_empty(column, request->missing == MISSING_MEAN ? "mean" : "median", true);
    if (request->missing == MISSING_MEAN)
        column->fill = (float)(exact_sum_value(&learned->sum) / (double)learned->numbers);
    return OK;
}

/* One round of medians is over; is there another? */
static bool go_on(struct feature_recipe *recipe)
{
    struct recipe_learner *learner = recipe->learner;
    bool wanted = false;
    for (size_t i = 0; i < learner->count; i++) {
        struct learned *learned = &learner->columns[i];
        if (learned->kind != KIND_NUMBER || !learned->median)
            continue;
        wanted = true;
        median_search_next(learned->median, learner->round, learned->numbers);
        recipe->columns[i].fill = median_search_value(learned->median);
    }
    return wanted && ++learner->round < MEDIAN_ROUNDS;
}

enum error recipe_learner_next(struct feature_recipe *recipe, bool *ret_again)
{
    struct recipe_learner *learner = recipe->learner;
    enum error error = OK;
    *ret_again = false;
    if (learner->failed)
        return error_set_memory(RECIPE_CATEGORY_BYTES_LIMIT, "the categories of columns");
    for (size_t i = 0; learner->round == 0 && i < learner->count && !error; i++)
        error = decide(recipe, i);
    if (error)
        return error;
    *ret_again = go_on(recipe);
    if (*ret_again)
        return OK;
    recipe_learner_abandon(recipe);
    return feature_recipe_finish(recipe);
}
