/* SPDX-License-Identifier: MIT */
#include "common/command/options_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/command/options_kept.h"
#include "common/text.h"

static enum error keep_copy(const char *text, const char **ret_text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = options_keep(bytes);
    if (!copy)
        return ERROR_MEMORY;
    memcpy(copy, text, bytes);
    *ret_text = copy;
    return OK;
}

/* `text` without blank lines. */
static enum error keep_lines(const char *text, const char **ret_text)
{
    char *lines = options_keep(strlen(text) + 1);
    if (!lines)
        return ERROR_MEMORY;
    size_t length = 0;
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (line > 0 && length > 0)
            lines[length++] = '\n';
        memcpy(lines + length, text, line);
        length += line;
        text += line + (text[line] == '\n');
    }
    *ret_text = lines;
    return OK;
}

static enum error keep_number(const cJSON *item, const char **ret_text)
{
    char number[TEXT_REAL_BYTES];
    int64_t integer;
    if (json_integer(item, &integer))
        snprintf(number, sizeof(number), "%" PRId64, integer);
    else if (item->valuestring) /* long ones are kept as they were written */
        return keep_copy(item->valuestring, ret_text);
    else
        text_of_real(item->valuedouble, number);
    return keep_copy(number, ret_text);
}

static enum error keep_object(const cJSON *item, const char **ret_text)
{
    char *text = cJSON_PrintUnformatted(item);
    if (!text)
        return error_set_memory(sizeof(*item), "an option's value");
    enum error error = keep_copy(text, ret_text);
    cJSON_free(text);
    return error;
}

/* One text per line. */
static enum error keep_array(const cJSON *array, const char *path, const char **ret_text)
{
    size_t bytes = 1;
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item) || !item->valuestring[0] || strchr(item->valuestring, '\n'))
            return error_set(ERROR_USAGE,
                             "config file %s: \"%s\" must hold texts of one line each, [\"A\", "
                             "\"B\"]",
                             path, array->string);
        bytes += strlen(item->valuestring) + 1;
    }
    if (bytes == 1)
        return error_set(ERROR_USAGE, "config file %s: \"%s\" is an empty array; leave it out",
                         path, array->string);
    char *lines = options_keep(bytes);
    if (!lines)
        return ERROR_MEMORY;
    char *end = lines;
    cJSON_ArrayForEach(item, array)
    {
        end += snprintf(end, bytes - (size_t)(end - lines), "%s%s", end > lines ? "\n" : "",
                        item->valuestring);
    }
    *ret_text = lines;
    return OK;
}

enum error options_text_of_json(const struct option *option, const cJSON *item, const char *path,
                                const char **ret_text)
{
    if (cJSON_IsString(item))
        return option->repeated ? keep_lines(item->valuestring, ret_text)
                                : keep_copy(item->valuestring, ret_text);
    if (cJSON_IsBool(item))
        return keep_copy(cJSON_IsTrue(item) ? "yes" : "no", ret_text);
    if (cJSON_IsNumber(item))
        return keep_number(item, ret_text);
    if (cJSON_IsArray(item) && option->repeated)
        return keep_array(item, path, ret_text);
    if (cJSON_IsObject(item) && option->json)
        return keep_object(item, ret_text);
    return error_set(ERROR_USAGE, "config file %s: \"%s\" must be %s, not %s", path, item->string,
                     option->repeated ? "a text or an array of texts"
                     : option->json   ? "an object, or a text that holds one"
                                      : "a text, a number, true or false",
                     json_kind(item));
}

enum error options_text_of_variable(const struct option *option, const char *value,
                                    const char **ret_text)
{
    if (option->repeated)
        return keep_lines(value, ret_text);
    *ret_text = value;
    return OK;
}
