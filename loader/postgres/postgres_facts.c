/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_facts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"

#define BEGINNING "{\"tombola\":"
#define FORMAT 2 /* if rows differ in length, else 1 */

static enum error refuse(const char *what)
{
    return error_set(ERROR_INPUT, "the comment that import wrote is damaged: %s", what);
}

static enum error take_names(struct postgres_facts *facts, const cJSON *names)
{
    size_t count = (size_t)cJSON_GetArraySize(names);
    facts->feature_names = array_new(count, sizeof(char *), "feature names");
    if (!facts->feature_names)
        return ERROR_MEMORY;
    for (const cJSON *item = names->child; item; item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        char *copy = name ? strdup(name) : NULL;
        if (!copy)
            return name ? error_set_memory(strlen(name), "a feature's name")
                        : refuse("a feature's name is not a text");
        facts->feature_names[facts->features++] = copy;
    }
    return OK;
}

/* Most tables have none. It is stored as a text, as in checkpoints. */
static enum error take_recipe(struct postgres_facts *facts, const cJSON *json, const char *what)
{
    const char *text = "";
    if (!cJSON_GetObjectItemCaseSensitive(json, "recipe"))
        return OK;
    enum error error = json_get_text(json, "recipe", what, &text);
    return error ? error : feature_recipe_parse(text, "its \"recipe\"", &facts->recipe);
}

/* "longest": null, or the limit. */
static enum error take_limit(struct postgres_facts *facts, const cJSON *json, const char *what)
{
    const cJSON *longest = cJSON_GetObjectItemCaseSensitive(json, "longest");
    int64_t limit = 0;
    if (cJSON_IsNull(longest)) {
        facts->limit = (struct row_limit){LENGTHS_VARY, ROW_LIMIT_MOST};
        return OK;
    }
    enum error error = json_get_integer(json, "longest", what, &limit);
    if (!error && (limit < 1 || limit > (int64_t)ROW_LIMIT_MOST))
        error = refuse("\"longest\" is not a row length");
    if (!error)
        facts->limit = (struct row_limit){LENGTHS_LIMITED, (size_t)limit};
    return error;
}

/* Comments edited by someone else have none. */
static void take_digest(struct postgres_facts *facts, const cJSON *json)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "digest"));
    if (text && strlen(text) == sizeof(facts->digest) - 1)
        memcpy(facts->digest, text, sizeof(facts->digest));
}

static enum error take(struct postgres_facts *facts, const cJSON *json)
{
    static const char what[] = "the comment that import wrote";
    int64_t format = 0;
    const char *element = "";
    const cJSON *names = NULL;
    enum error error = json_get_integer(json, "tombola", what, &format);
    if (!error && format > FORMAT)
        error = error_set(ERROR_INPUT, "%s is of a later version (%lld, this one reads up to %d)",
                          what, (long long)format, FORMAT);
    if (!error)
        error = json_get_text(json, "element", what, &element);
    if (!error && !element_find(element, &facts->element))
        error = refuse("\"element\" is not one of u8, f32 and i32");
    if (!error && format > 1)
        error = take_limit(facts, json, what);
    if (!error)
        error = json_get_array(json, "features", what, &names);
    if (error)
        return error;
    facts->has_weight = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "weight"));
    facts->has_group = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "group"));
    facts->there = true;
    take_digest(facts, json);
    error = take_names(facts, names);
    return error ? error : take_recipe(facts, json, what);
}

enum error postgres_facts_read(struct postgres_facts *facts, const char *comment)
{
    cJSON *json = NULL;
    *facts = (struct postgres_facts){.there = false};
    if (!comment || strncmp(comment, BEGINNING, strlen(BEGINNING)) != 0)
        return OK;
    enum error error = json_parse(comment, strlen(comment), "the comment that import wrote", &json);
    if (!error)
        error = take(facts, json);
    cJSON_Delete(json);
    if (error)
        postgres_facts_release(facts);
    return error;
}

void postgres_facts_release(struct postgres_facts *facts)
{
    for (size_t i = 0; i < facts->features; i++)
        free(facts->feature_names[i]);
    free(facts->feature_names);
    feature_recipe_free(facts->recipe);
    *facts = (struct postgres_facts){.there = false};
}

void postgres_facts_choose(const struct postgres_facts *facts, struct column_choice *choice)
{
    if (facts->there)
        column_choice_imported(choice, facts->has_weight, facts->has_group,
                               facts->features > 0 || row_limit_varies(&facts->limit));
}

static enum error add_recipe(const struct feature_recipe *recipe, struct buffer *out)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = feature_recipe_print(recipe, &text);
    buffer_add_text(out, ",\"recipe\":");
    if (!error)
        error = json_add_string(out, text.data);
    buffer_release(&text);
    return error;
}

enum error postgres_facts_write(const struct store_info *info, const char *digest,
                                struct buffer *out)
{
    buffer_print(out,
                 BEGINNING "%d,\"rows\":%lld,\"element\":\"%s\",\"weight\":%s,\"group\":%s,"
                           "\"digest\":\"%s\",\"features\":",
                 info->lengths == LENGTHS_ALIKE ? 1 : FORMAT, (long long)info->rows,
                 element_names[info->element], json_truth(info->weight_column),
                 json_truth(info->group_column), digest);
    json_add_strings(out, info->feature_names, info->feature_names ? info->features : 0);
    if (info->lengths == LENGTHS_LIMITED)
        buffer_print(out, ",\"longest\":%zu", info->features);
    else if (info->lengths == LENGTHS_VARY)
        buffer_add_text(out, ",\"longest\":null");
    enum error error = info->recipe ? add_recipe(info->recipe, out) : OK;
    return error ? error : buffer_add_text(out, "}");
}
