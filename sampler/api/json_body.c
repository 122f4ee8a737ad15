/* SPDX-License-Identifier: MIT */
#include "sampler/api/json_body.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/json.h"
#include "common/text.h"

#define WHAT "the body"

/* ---- Content-Type ------------------------------------------------------- */

static size_t trimmed(const char **text, size_t length)
{
    while (length > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        length--;
    }
    while (length > 0 && ((*text)[length - 1] == ' ' || (*text)[length - 1] == '\t'))
        length--;
    return length;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    length = trimmed(&text, length);
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

/* No charset, or UTF-8. */
static bool charset_is_right(const char *parameters)
{
    while (*parameters == ';') {
        const char *parameter = ++parameters;
        size_t length = strcspn(parameter, ";");
        parameters += length;
        length = trimmed(&parameter, length);
        if (length >= 8 && strncasecmp(parameter, "charset=", 8) == 0 &&
            !is_word(parameter + 8, length - 8, "utf-8") &&
            !is_word(parameter + 8, length - 8, "\"utf-8\""))
            return false;
    }
    return true;
}

bool body_type_is_right(const char *content_type)
{
    if (!content_type)
        return true;
    size_t length = strcspn(content_type, ";");
    if (is_word(content_type, length, "application/x-www-form-urlencoded"))
        return true;
    return is_word(content_type, length, "application/json") &&
           charset_is_right(content_type + length);
}

/* ---- opening ------------------------------------------------------------ */

enum error body_open(const char *text, size_t length, bool may_be_empty, struct body *ret_body)
{
    struct body body = {0};
    enum error error = OK;
    if (length == 0 && !may_be_empty)
        return error_set(ERROR_INPUT, WHAT " is empty: a JSON object was expected");
    if (length == 0)
        body.json = cJSON_CreateObject();
    else
        error = json_parse(text, length, WHAT, &body.json);
    if (error)
        return error;
    if (!body.json)
        return error_set_memory(sizeof(cJSON), WHAT);
    if (!cJSON_IsObject(body.json)) {
        error = error_set(ERROR_INPUT, WHAT " is %s, must be an object", json_kind(body.json));
        cJSON_Delete(body.json);
        return error;
    }
    *ret_body = body;
    return OK;
}

void body_close(struct body *body)
{
    cJSON_Delete(body->json);
    body->json = NULL;
}

/* ---- fields ------------------------------------------------------------- */

static const cJSON *find(struct body *body, const char *field)
{
    if (body->asked_count < BODY_FIELDS_LIMIT)
        body->asked[body->asked_count++] = field;
    return cJSON_GetObjectItemCaseSensitive(body->json, field);
}

static enum error refuse_kind(const char *field, const cJSON *item, const char *wanted)
{
    return error_set(ERROR_INPUT, "\"%s\" is %s, must be %s", field, json_kind(item), wanted);
}

static enum error refuse_number(const char *field, const cJSON *item, int64_t minimum,
                                int64_t maximum)
{
    char given[JSON_NUMBER_BYTES];
    return error_set(ERROR_INPUT, "\"%s\" is %s, must be an integer from %" PRId64 " to %" PRId64,
                     field, json_number(item, given), minimum, maximum);
}

static enum error integer_of(const char *field, const cJSON *item, int64_t minimum, int64_t maximum,
                             int64_t *ret_value)
{
    int64_t value;
    if (!cJSON_IsNumber(item))
        return refuse_kind(field, item, "an integer");
    if (!json_integer(item, &value) || value < minimum || value > maximum)
        return refuse_number(field, item, minimum, maximum);
    *ret_value = value;
    return OK;
}

enum error body_text(struct body *body, const char *field, const char *fallback,
                     const char **ret_text)
{
    const cJSON *item = find(body, field);
    *ret_text = fallback;
    if (!item)
        return OK;
    if (!cJSON_IsString(item))
        return refuse_kind(field, item, "a text");
    *ret_text = item->valuestring;
    return OK;
}

enum error body_integer(struct body *body, const char *field, int64_t minimum, int64_t maximum,
                        int64_t fallback, int64_t *ret_value)
{
    const cJSON *item = find(body, field);
    *ret_value = fallback;
    return item ? integer_of(field, item, minimum, maximum, ret_value) : OK;
}

enum error body_real(struct body *body, const char *field, double minimum, double maximum,
                     double fallback, double *ret_value)
{
    char given[TEXT_REAL_BYTES], least[TEXT_REAL_BYTES], most[TEXT_REAL_BYTES];
    const cJSON *item = find(body, field);
    *ret_value = fallback;
    if (!item)
        return OK;
    if (!cJSON_IsNumber(item))
        return refuse_kind(field, item, "a number");
    if (!(item->valuedouble >= minimum && item->valuedouble <= maximum))
        return error_set(ERROR_INPUT, "\"%s\" is %s, must be from %s to %s", field,
                         text_of_real(item->valuedouble, given), text_of_real(minimum, least),
                         text_of_real(maximum, most));
    *ret_value = item->valuedouble;
    return OK;
}

enum error body_boolean(struct body *body, const char *field, bool fallback, bool *ret_value)
{
    const cJSON *item = find(body, field);
    *ret_value = fallback;
    if (!item)
        return OK;
    if (!cJSON_IsBool(item))
        return refuse_kind(field, item, "true or false");
    *ret_value = cJSON_IsTrue(item);
    return OK;
}

enum error body_require(const struct body *body, const char *field)
{
    if (cJSON_GetObjectItemCaseSensitive(body->json, field))
        return OK;
    return error_set(ERROR_INPUT, WHAT " has no \"%s\"", field);
}

enum error body_integers(struct body *body, const char *field, int64_t minimum, int64_t maximum,
                         int64_t **ret_list, size_t *ret_count)
{
    const cJSON *array = find(body, field);
    size_t count = 0;
    enum error error = OK;
    if (!array)
        return body_require(body, field);
    if (!cJSON_IsArray(array))
        return refuse_kind(field, array, "an array of integers");
    int64_t *list = array_new((size_t)cJSON_GetArraySize(array), sizeof(*list), field);
    if (!list)
        return ERROR_MEMORY;
    for (const cJSON *item = array->child; item && !error; item = item->next)
        error = integer_of(field, item, minimum, maximum, &list[count++]);
    if (error) {
        free(list);
        return error;
    }
    *ret_list = list;
    *ret_count = count;
    return OK;
}

void body_drop_known(struct body *body)
{
    for (size_t i = 0; i < body->asked_count; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(body->json, body->asked[i]);
}

static bool is_asked(const struct body *body, const char *field)
{
    for (size_t i = 0; i < body->asked_count; i++) {
        if (strcmp(body->asked[i], field) == 0)
            return true;
    }
    return false;
}

void body_list_known(const struct body *body, char ret_names[BODY_NAMES_BYTES])
{
    size_t length = 0;
    ret_names[0] = '\0';
    for (size_t i = 0; i < body->asked_count && length < BODY_NAMES_BYTES; i++)
        length += (size_t)snprintf(ret_names + length, BODY_NAMES_BYTES - length, "%s%s",
                                   i > 0 ? ", " : "", body->asked[i]);
}

enum error body_finish(const struct body *body)
{
    char quoted[TEXT_QUOTE_BYTES];
    char known[BODY_NAMES_BYTES];
    body_list_known(body, known);
    for (const cJSON *item = body->json->child; item; item = item->next) {
        if (is_asked(body, item->string))
            continue;
        text_quote(quoted, sizeof(quoted), item->string, strlen(item->string));
        if (!*known)
            return error_set(ERROR_INPUT, WHAT " has an unknown field %s; there are none here",
                             quoted);
        return error_set(ERROR_INPUT, WHAT " has an unknown field %s; those that exist: %s", quoted,
                         known);
    }
    return OK;
}
