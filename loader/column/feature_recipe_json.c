/* SPDX-License-Identifier: MIT */
/*
 * A recipe as text:
 *
 *   {"missing":"mean","onehot":"*","unseen":"zeros","columns":[{"name":"age","fill":29.5},
 *    {"name":"color","categories":["blue","red"]}]}
 *
 * "missing" and "onehot" only if requested, "fill" with "missing".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/text.h"
#include "loader/column/feature_recipe.h"

/* ---- out ---------------------------------------------------------------- */

static enum error add_member(struct buffer *out, const char *key, const char *value)
{
    buffer_print(out, "\"%s\":", key);
    json_add_string(out, value);
    return buffer_add_text(out, ",");
}

static const char *missing_text(const struct recipe_request *request, char room[TEXT_REAL_BYTES])
{
    if (request->missing == MISSING_NUMBER)
        return text_of_float(request->number, room);
    return request->missing == MISSING_MEAN ? "mean" : "median";
}

static enum error print_column(const struct feature_recipe *recipe,
                               const struct recipe_column *column, struct buffer *out)
{
    char number[TEXT_REAL_BYTES];
    buffer_add_text(out, "{\"name\":");
    json_add_string(out, column->name);
    if (column->is_category) {
        buffer_add_text(out, ",\"categories\":");
        json_add_strings(out, (const char *const *)column->categories, column->count);
    } else if (recipe->request.missing != MISSING_BAD) {
        buffer_print(out, ",\"fill\":%s", text_of_float(column->fill, number));
    }
    return buffer_add_text(out, "}");
}

enum error feature_recipe_print(const struct feature_recipe *recipe, struct buffer *out)
{
    const struct recipe_request *request = &recipe->request;
    char number[TEXT_REAL_BYTES];
    enum error error = buffer_add_text(out, "{");
    if (request->missing != MISSING_BAD)
        error = add_member(out, "missing", missing_text(request, number));
    if (request->onehot)
        error = add_member(out, "onehot", request->onehot);
    if (!error)
        error = add_member(out, "unseen", request->unseen_is_bad ? "bad" : "zeros");
    buffer_add_text(out, "\"columns\":[");
    for (size_t i = 0; i < recipe->count && !error; i++) {
        buffer_add_text(out, i > 0 ? "," : "");
        error = print_column(recipe, &recipe->columns[i], out);
    }
    return error ? error : buffer_add_text(out, "]}");
}

/* ---- in ----------------------------------------------------------------- */

static bool has(const cJSON *json, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(json, key) != NULL;
}

/* NULL: absent. */
static enum error get_text(const cJSON *json, const char *key, const char *what, char **ret_text)
{
    const char *text = "";
    *ret_text = NULL;
    if (!has(json, key))
        return OK;
    enum error error = json_get_text(json, key, what, &text);
    if (error)
        return error;
    *ret_text = strdup(text);
    return *ret_text ? OK : error_set_memory(strlen(text), "a recipe of features");
}

static enum error parse_missing(const char *text, const char *what, struct recipe_request *request)
{
    double number = 0;
    if (!text)
        return OK;
    if (strcmp(text, "mean") == 0 || strcmp(text, "median") == 0) {
        request->missing = strcmp(text, "mean") == 0 ? MISSING_MEAN : MISSING_MEDIAN;
        return OK;
    }
    request->missing = MISSING_NUMBER;
    if (!text_parse_real(text, strlen(text), &number) || !isfinite((float)number))
        return error_set(ERROR_INPUT, "%s: \"missing\" is neither mean, median nor a number", what);
    request->number = (float)number;
    return OK;
}

static enum error parse_request(const cJSON *json, const char *what, struct recipe_request *request)
{
    char *missing = NULL, *unseen = NULL;
    *request = (struct recipe_request){.missing = MISSING_BAD};
    enum error error = get_text(json, "missing", what, &missing);
    if (!error)
        error = parse_missing(missing, what, request);
    if (!error)
        error = get_text(json, "onehot", what, &request->onehot);
    if (!error)
        error = get_text(json, "unseen", what, &unseen);
    if (!error && (!unseen || (strcmp(unseen, "zeros") != 0 && strcmp(unseen, "bad") != 0)))
        error = error_set(ERROR_INPUT, "%s: \"unseen\" is neither zeros nor bad", what);
    request->unseen_is_bad = unseen && strcmp(unseen, "bad") == 0;
    free(missing);
    free(unseen);
    if (error)
        recipe_request_release(request);
    return error;
}

static enum error take_category(const cJSON *entry, const char *what, struct recipe_column *column)
{
    const char *text = cJSON_IsString(entry) ? entry->valuestring : NULL;
    size_t at = column->count;
    if (!text || !text[0] || strlen(text) > RECIPE_CATEGORY_BYTES_LIMIT ||
        (at > 0 && strcmp(column->categories[at - 1], text) >= 0))
        return error_set(ERROR_INPUT,
                         "%s: the categories of \"%s\" are not different texts of 1 to %d bytes in "
                         "their order",
                         what, column->name, RECIPE_CATEGORY_BYTES_LIMIT);
    column->categories[at] = strdup(text);
    if (!column->categories[at])
        return error_set_memory(strlen(text), "a category");
    column->count++;
    return OK;
}

static enum error parse_categories(const cJSON *json, const char *what,
                                   struct recipe_column *column)
{
    const cJSON *list = NULL, *entry;
    enum error error = json_get_array(json, "categories", what, &list);
    if (error)
        return error;
    size_t count = (size_t)cJSON_GetArraySize(list);
    if (count == 0 || count > RECIPE_CATEGORIES_LIMIT)
        return error_set(ERROR_INPUT, "%s: \"%s\" has %zu categories; 1 to %d are possible", what,
                         column->name, count, RECIPE_CATEGORIES_LIMIT);
    column->is_category = true;
    column->categories = array_new(count, sizeof(*column->categories), "categories");
    if (!column->categories)
        return ERROR_MEMORY;
    cJSON_ArrayForEach(entry, list)
    {
        error = take_category(entry, what, column);
        if (error)
            return error;
    }
    return OK;
}

static enum error parse_column(const cJSON *json, const char *what,
                               const struct recipe_request *request, struct recipe_column *column)
{
    enum error error = get_text(json, "name", what, &column->name);
    if (!error && !column->name)
        error = error_set(ERROR_INPUT, "%s: a column has no \"name\"", what);
    if (error || has(json, "categories"))
        return error ? error : parse_categories(json, what, column);
    const cJSON *fill = cJSON_GetObjectItemCaseSensitive(json, "fill");
    if (request->missing == MISSING_BAD)
        return fill ? error_set(ERROR_INPUT, "%s: \"%s\" has a \"fill\" without \"missing\"", what,
                                column->name)
                    : OK;
    if (!cJSON_IsNumber(fill) || !isfinite((float)fill->valuedouble))
        return error_set(ERROR_INPUT, "%s: the \"fill\" of \"%s\" is not a number", what,
                         column->name);
    column->fill = (float)fill->valuedouble;
    return OK;
}

static enum error parse_columns(const cJSON *json, const char *what, struct feature_recipe *recipe)
{
    const cJSON *list = NULL, *entry;
    enum error error = json_get_array(json, "columns", what, &list);
    if (error)
        return error;
    size_t count = (size_t)cJSON_GetArraySize(list);
    if (count == 0 || count > RECIPE_FEATURES_LIMIT)
        return error_set(ERROR_INPUT, "%s has %zu columns; 1 to %d are possible", what, count,
                         RECIPE_FEATURES_LIMIT);
    recipe->columns = array_new(count, sizeof(*recipe->columns), "a recipe of features");
    if (!recipe->columns)
        return ERROR_MEMORY;
    cJSON_ArrayForEach(entry, list)
    {
        error = parse_column(entry, what, &recipe->request, &recipe->columns[recipe->count++]);
        if (error)
            return error;
    }
    error = feature_recipe_finish(recipe);
    return error ? error_prefix(error, "%s: ", what) : OK;
}

enum error feature_recipe_parse(const char *text, const char *what,
                                struct feature_recipe **ret_recipe)
{
    cJSON *json = NULL;
    struct recipe_request request;
    struct feature_recipe *recipe = NULL;
    enum error error = json_parse(text, strlen(text), what, &json);
    if (!error && !cJSON_IsObject(json))
        error = error_set(ERROR_INPUT, "%s is not an object", what);
    if (!error)
        error = parse_request(json, what, &request);
    if (!error) {
        recipe = feature_recipe_new(&request);
        if (!recipe)
            recipe_request_release(&request);
        error = recipe ? parse_columns(json, what, recipe) : ERROR_MEMORY;
    }
    cJSON_Delete(json);
    if (error)
        feature_recipe_free(recipe);
    else
        *ret_recipe = recipe;
    return error;
}

enum error feature_recipe_copy(const struct feature_recipe *recipe, bool unseen_is_bad,
                               struct feature_recipe **ret_copy)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = feature_recipe_print(recipe, &text);
    if (!error)
        error = feature_recipe_parse(text.data, "a recipe of features", ret_copy);
    if (!error)
        (*ret_copy)->request.unseen_is_bad = unseen_is_bad;
    buffer_release(&text);
    return error;
}
