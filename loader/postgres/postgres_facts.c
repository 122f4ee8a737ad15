/* SPDX-License-Identifier: MIT */
#include "loader/postgres/postgres_facts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"

#define BEGINNING "{\"tombola\":"
#define FORMAT 1

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
                        : refuse("a feature's name is no text");
        facts->feature_names[facts->features++] = copy;
    }
    return OK;
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
    if (!error && strcmp(element, "u8") != 0 && strcmp(element, "f32") != 0)
        error = refuse("\"element\" is neither u8 nor f32");
    if (!error)
        error = json_get_array(json, "features", what, &names);
    if (error)
        return error;
    facts->element = strcmp(element, "f32") == 0 ? ELEMENT_F32 : ELEMENT_U8;
    facts->has_weight = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "weight"));
    facts->has_group = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "group"));
    facts->there = true;
    return take_names(facts, names);
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
    *facts = (struct postgres_facts){.there = false};
}

void postgres_facts_choose(const struct postgres_facts *facts, struct column_choice *choice)
{
    if (facts->there)
        column_choice_imported(choice, facts->has_weight, facts->has_group, facts->features > 0);
}

enum error postgres_facts_write(const struct store_info *info, const char *digest,
                                struct buffer *out)
{
    buffer_print(out,
                 BEGINNING "%d,\"rows\":%lld,\"element\":\"%s\",\"weight\":%s,\"group\":%s,"
                           "\"digest\":\"%s\",\"features\":",
                 FORMAT, (long long)info->rows, element_names[info->element],
                 json_truth(info->weight_column), json_truth(info->group_column), digest);
    json_add_strings(out, info->feature_names, info->features);
    return buffer_add_text(out, "}");
}
