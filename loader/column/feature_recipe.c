/* SPDX-License-Identifier: MIT */
#include "loader/column/feature_recipe.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "common/text.h"
#include "common/text_set.h"

/* ---- a URI's request ---------------------------------------------------- */

static enum error read_missing(struct recipe_request *request, const char *value)
{
    char shown[TEXT_QUOTE_BYTES];
    double number = 0;
    if (strcmp(value, "mean") == 0 || strcmp(value, "median") == 0) {
        request->missing = strcmp(value, "mean") == 0 ? MISSING_MEAN : MISSING_MEDIAN;
        return OK;
    }
    request->missing = MISSING_NUMBER;
    if (strcmp(value, "zero") != 0 &&
        (!text_parse_real(value, strlen(value), &number) || !isfinite((float)number)))
        return error_set(ERROR_USAGE,
                         "missing is %s, must be mean, median, zero or a number that fits 32-bit "
                         "float",
                         text_quote(shown, sizeof(shown), value, strlen(value)));
    request->number = (float)number + 0.0f;
    return OK;
}

enum error recipe_request_read(struct recipe_request *request, struct uri *uri)
{
    const char *missing = uri_query_get(&uri->query, "missing");
    const char *onehot = uri_query_get(&uri->query, "onehot");
    const char *unseen = uri_query_get(&uri->query, "unseen");
    char shown[TEXT_QUOTE_BYTES];
    *request = (struct recipe_request){.missing = MISSING_BAD};
    enum error error = missing ? read_missing(request, missing) : OK;
    if (!error && onehot && !onehot[0])
        error = error_set(ERROR_USAGE, "onehot names no column; onehot=A,B or onehot=* does");
    if (!error && unseen && strcmp(unseen, "zeros") != 0 && strcmp(unseen, "bad") != 0)
        error = error_set(ERROR_USAGE, "unseen is %s, must be zeros or bad",
                          text_quote(shown, sizeof(shown), unseen, strlen(unseen)));
    if (error)
        return error_prefix(error, "%s: ", uri->path);
    request->unseen_given = unseen != NULL;
    request->unseen_is_bad = unseen && strcmp(unseen, "bad") == 0;
    request->onehot = onehot ? strdup(onehot) : NULL;
    return onehot && !request->onehot ? error_set_memory(strlen(onehot), "names of columns") : OK;
}

void recipe_request_release(struct recipe_request *request)
{
    free(request->onehot);
    request->onehot = NULL;
}

bool recipe_request_is_same(const struct recipe_request *a, const struct recipe_request *b)
{
    return a->missing == b->missing && a->number == b->number &&
           strcmp(a->onehot ? a->onehot : "", b->onehot ? b->onehot : "") == 0;
}

const char *recipe_request_text(const struct recipe_request *request,
                                char out[RECIPE_REQUEST_BYTES])
{
    char number[TEXT_REAL_BYTES];
    const char *missing = "";
    switch (request->missing) {
    case MISSING_BAD:
        break;
    case MISSING_MEAN:
        missing = "mean";
        break;
    case MISSING_MEDIAN:
        missing = "median";
        break;
    case MISSING_NUMBER:
        missing = text_of_float(request->number, number);
        break;
    }
    if (recipe_request_is_empty(request))
        snprintf(out, RECIPE_REQUEST_BYTES, "neither missing= nor onehot=");
    else
        snprintf(out, RECIPE_REQUEST_BYTES, "%s%s%s%s%.200s", *missing ? "missing=" : "", missing,
                 *missing && request->onehot ? "&" : "", request->onehot ? "onehot=" : "",
                 request->onehot ? request->onehot : "");
    return out;
}

bool feature_is_missing(const char *text, size_t length)
{
    static const char *const texts[] = {"", "NA", "N/A", "NaN", "nan", "NULL", "null"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (length == strlen(texts[i]) && memcmp(text, texts[i], length) == 0)
            return true;
    }
    return false;
}

const char *feature_way_out(const char *text, size_t length)
{
    return !text || feature_is_missing(text, length)
               ? " (missing=mean in the URI, or median, zero or a number, fills missing values)"
               : " (features=A,B,C in the URI names the columns to take as features, onehot=A,B "
                 "those whose texts are categories)";
}

/* ---- life --------------------------------------------------------------- */

struct feature_recipe *feature_recipe_new(struct recipe_request *request)
{
    struct feature_recipe *recipe = array_new(1, sizeof(*recipe), "a recipe of features");
    if (!recipe)
        return NULL;
    pthread_mutex_init(&recipe->lock, NULL);
    recipe->request = *request;
    request->onehot = NULL;
    return recipe;
}

void feature_recipe_keep(struct feature_recipe *recipe)
{
    if (recipe)
        atomic_fetch_add(&recipe->keepers, 1);
}

static void release_column(struct recipe_column *column)
{
    for (size_t i = 0; column->categories && i < column->count; i++)
        free(column->categories[i]);
    free(column->categories);
    free(column->name);
}

void feature_recipe_free(struct feature_recipe *recipe)
{
    if (!recipe || atomic_fetch_sub(&recipe->keepers, 1) > 0)
        return;
    for (size_t i = 0; recipe->columns && i < recipe->count; i++)
        release_column(&recipe->columns[i]);
    for (size_t i = 0; recipe->names && i < recipe->features; i++)
        free(recipe->names[i]);
    free(recipe->columns);
    free(recipe->names);
    recipe_request_release(&recipe->request);
    pthread_mutex_destroy(&recipe->lock);
    free(recipe);
}

/* ---- its features ------------------------------------------------------- */

static enum error add_name(struct feature_recipe *recipe, struct text_set *taken, char *name)
{
    uint32_t number;
    if (!name)
        return error_set_memory(RECIPE_CATEGORY_BYTES_LIMIT, "a feature's name");
    size_t at = recipe->features++;
    recipe->names[at] = name;
    enum error error = text_set_add(taken, name, strlen(name), &number);
    if (error || number == at)
        return error;
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT,
                     "two features would be called %s; give the column another name, or leave one "
                     "out (features= in the URI)",
                     text_quote(shown, sizeof(shown), name, strlen(name)));
}

static enum error name_column(struct feature_recipe *recipe, struct text_set *taken,
                              struct recipe_column *column)
{
    enum error error = OK;
    char *name = NULL;
    column->first = recipe->features;
    if (!column->is_category)
        return add_name(recipe, taken, strdup(column->name));
    for (size_t i = 0; i < column->count && !error; i++) {
        if (asprintf(&name, "%s=%s", column->name, column->categories[i]) < 0)
            name = NULL;
        error = add_name(recipe, taken, name);
    }
    return error;
}

/* A store's columns are found by name. */
static enum error check_columns(const struct feature_recipe *recipe)
{
    struct text_set names = {.count = 0};
    char shown[TEXT_QUOTE_BYTES];
    uint32_t number;
    enum error error = OK;
    for (size_t i = 0; i < recipe->count && !error; i++) {
        const char *name = recipe->columns[i].name;
        error = text_set_add(&names, name, strlen(name), &number);
        if (!error && number != i)
            error = error_set(ERROR_INPUT, "two columns are called %s",
                              text_quote(shown, sizeof(shown), name, strlen(name)));
    }
    text_set_release(&names);
    return error;
}

enum error feature_recipe_finish(struct feature_recipe *recipe)
{
    struct text_set taken = {.count = 0};
    size_t count = 0;
    enum error error = check_columns(recipe);
    if (error)
        return error;
    for (size_t i = 0; i < recipe->count; i++)
        count += recipe->columns[i].is_category ? recipe->columns[i].count : 1;
    if (count > RECIPE_FEATURES_LIMIT)
        return error_set(ERROR_INPUT,
                         "its columns would become %zu features, more than %d; features= in the "
                         "URI leaves some out",
                         count, RECIPE_FEATURES_LIMIT);
    recipe->names = array_new(count, sizeof(*recipe->names), "names of features");
    error = recipe->names ? OK : ERROR_MEMORY;
    for (size_t i = 0; i < recipe->count && !error; i++)
        error = name_column(recipe, &taken, &recipe->columns[i]);
    text_set_release(&taken);
    return error;
}

size_t recipe_column_find(const struct recipe_column *column, const char *text, size_t length)
{
    return text_find(text, length, (const char *const *)column->categories, column->count);
}

static bool is_same_column(const struct recipe_column *a, const struct recipe_column *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->is_category == b->is_category &&
                a->fill == b->fill && a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->categories[i], b->categories[i]) == 0;
    return same;
}

/* Requests in other words may come to the same: onehot=*, and the names of the columns. */
bool feature_recipe_is_same(const struct feature_recipe *a, const struct feature_recipe *b)
{
    bool fills[2] = {a->request.missing != MISSING_BAD, b->request.missing != MISSING_BAD};
    bool same = fills[0] == fills[1] && a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = is_same_column(&a->columns[i], &b->columns[i]);
    return same;
}

/* ---- texts outside the categories --------------------------------------- */

void feature_recipe_note_unseen(struct feature_recipe *recipe, size_t column, const char *text,
                                size_t length)
{
    pthread_mutex_lock(&recipe->lock);
    if (recipe->unseen++ == 0) {
        text_quote(recipe->unseen_text, sizeof(recipe->unseen_text), text, length);
        recipe->unseen_column = column;
    }
    pthread_mutex_unlock(&recipe->lock);
}

int64_t feature_recipe_unseen(struct feature_recipe *recipe)
{
    if (!recipe)
        return 0;
    pthread_mutex_lock(&recipe->lock);
    int64_t unseen = recipe->unseen;
    pthread_mutex_unlock(&recipe->lock);
    return unseen;
}

void feature_recipe_forget_unseen(struct feature_recipe *recipe, int64_t but)
{
    if (!recipe)
        return;
    pthread_mutex_lock(&recipe->lock);
    recipe->unseen = but;
    pthread_mutex_unlock(&recipe->lock);
}

void feature_recipe_warn_of_unseen(struct feature_recipe *recipe, const char *called)
{
    char text[sizeof(recipe->unseen_text)];
    pthread_mutex_lock(&recipe->lock);
    int64_t unseen = recipe->unseen;
    size_t column = recipe->unseen_column;
    memcpy(text, recipe->unseen_text, sizeof(text));
    recipe->unseen = 0;
    pthread_mutex_unlock(&recipe->lock);
    if (unseen == 0)
        return;
    log_warning("%s: %lld %s of no category that training saw, such as %s in column \"%s\": their "
                "features are 0 (unseen=bad in the URI makes such rows bad ones)",
                called, (long long)unseen, text_plural(unseen, "text is", "texts are"), text,
                recipe->columns[column].name);
}
