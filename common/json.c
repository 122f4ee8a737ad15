/* SPDX-License-Identifier: MIT */
#include "common/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json_check.h"
#include "common/text.h"

#define EXACT_DIGITS 15 /* of a number a double holds so many */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum error refuse_twice(const char *key, const char *what)
{
    char shown[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "%s has the key %s twice", what,
                     text_quote(shown, sizeof(shown), key, strlen(key)));
}

static enum error check_keys_once(const cJSON *object, const char *what)
{
    size_t count = 0;
    enum error error = OK;
    const char **keys = array_new((size_t)cJSON_GetArraySize(object), sizeof(*keys), "JSON keys");
    if (!keys)
        return ERROR_MEMORY;
    for (const cJSON *item = object->child; item; item = item->next)
        keys[count++] = item->string;
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < count && !error; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0)
            error = refuse_twice(keys[i], what);
    }
    free(keys);
    return error;
}

/* Checks the whole tree; json_check() bounds the depth. */
static enum error check_tree(const cJSON *item, const char *what)
{
    enum error error = cJSON_IsObject(item) ? check_keys_once(item, what) : OK;
    for (const cJSON *child = item->child; child && !error; child = child->next)
        error = check_tree(child, what);
    return error;
}

/* ---- numbers that a double does not hold -------------------------------- */

/* The text is valid JSON: outside strings, a digit or '-' begins a number. */
struct number_scan {
    const char *at;
    const char *end;
};

static const char *skip_string(const char *at)
{
    while (*at != '"')
        at += *at == '\\' ? 2 : 1;
    return at + 1;
}

static void next_number(struct number_scan *scan, const char **ret_number, size_t *ret_length)
{
    while (*scan->at != '-' && !(*scan->at >= '0' && *scan->at <= '9'))
        scan->at = *scan->at == '"' ? skip_string(scan->at + 1) : scan->at + 1;
    *ret_number = scan->at;
    while (scan->at < scan->end && *scan->at && strchr("+-.eE0123456789", *scan->at))
        scan->at++;
    *ret_length = (size_t)(scan->at - *ret_number);
}

/* In text order; json_check() bounds the depth. */
static enum error keep_long_numbers(cJSON *item, struct number_scan *scan)
{
    enum error error = OK;
    if (cJSON_IsNumber(item)) {
        const char *number;
        size_t length;
        next_number(scan, &number, &length);
        bool has_exponent = memchr(number, 'e', length) || memchr(number, 'E', length);
        if (length <= EXACT_DIGITS && !has_exponent)
            return OK;
        item->valuestring = cJSON_malloc(length + 1); /* cJSON frees it */
        if (!item->valuestring)
            return error_set_memory(length, "a number");
        memcpy(item->valuestring, number, length);
        item->valuestring[length] = '\0';
        return OK;
    }
    for (cJSON *child = item->child; child && !error; child = child->next)
        error = keep_long_numbers(child, scan);
    return error;
}

bool json_integer(const cJSON *item, int64_t *ret_value)
{
    if (!cJSON_IsNumber(item))
        return false;
    if (item->valuestring) /* its double may be another number: 2^53 + 1, with a point */
        return text_parse_json_integer(item->valuestring, strlen(item->valuestring), ret_value);
    if (!text_real_is_integer(item->valuedouble))
        return false;
    *ret_value = (int64_t)item->valuedouble;
    return true;
}

const char *json_number(const cJSON *item, char out[JSON_NUMBER_BYTES])
{
    if (!item->valuestring)
        return text_of_real(item->valuedouble, out);
    snprintf(out, JSON_NUMBER_BYTES, "%s", item->valuestring);
    return out;
}

/* ---- parsing ------------------------------------------------------------ */

enum error json_parse(const char *text, size_t length, const char *what, cJSON **ret_json)
{
    struct number_scan scan = {.at = text, .end = text + length};
    enum error error = json_check(text, length, what);
    if (error)
        return error;
    cJSON *json = cJSON_ParseWithLength(text, length);
    if (!json)
        return error_set_memory(length, what); /* the text is right: only memory can fail */
    error = check_tree(json, what);
    if (!error)
        error = keep_long_numbers(json, &scan);
    if (error) {
        cJSON_Delete(json);
        return error;
    }
    *ret_json = json;
    return OK;
}

const char *json_kind(const cJSON *item)
{
    if (cJSON_IsString(item))
        return "a text";
    if (cJSON_IsNumber(item))
        return "a number";
    if (cJSON_IsBool(item))
        return "true or false";
    if (cJSON_IsArray(item))
        return "an array";
    return cJSON_IsObject(item) ? "an object" : "null";
}

/* The member, or NULL with the error set. */
static const cJSON *find(const cJSON *object, const char *key, const char *what,
                         const char *expected, cJSON_bool (*is_right)(const cJSON *))
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        error_set(ERROR_INPUT, "%s has no \"%s\" (%s was expected)", what, key, expected);
    else if (!is_right(item))
        error_set(ERROR_INPUT, "\"%s\" in %s is %s, must be %s", key, what, json_kind(item),
                  expected);
    else
        return item;
    return NULL;
}

enum error json_get_integer(const cJSON *object, const char *key, const char *what,
                            int64_t *ret_value)
{
    const cJSON *item = find(object, key, what, "an integer", cJSON_IsNumber);
    if (!item)
        return ERROR_INPUT;
    char given[JSON_NUMBER_BYTES];
    if (json_integer(item, ret_value))
        return OK;
    return error_set(ERROR_INPUT,
                     "\"%s\" in %s is %s, must be an integer within -2^63 and 2^63 - 1", key, what,
                     json_number(item, given));
}

enum error json_get_text(const cJSON *object, const char *key, const char *what,
                         const char **ret_value)
{
    const cJSON *item = find(object, key, what, "a text", cJSON_IsString);
    if (!item)
        return ERROR_INPUT;
    *ret_value = item->valuestring;
    return OK;
}

enum error json_get_array(const cJSON *object, const char *key, const char *what,
                          const cJSON **ret_value)
{
    const cJSON *item = find(object, key, what, "an array", cJSON_IsArray);
    if (!item)
        return ERROR_INPUT;
    *ret_value = item;
    return OK;
}

static void add_escaped(struct buffer *buffer, char letter)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char escaped[] = "\"\\bfnrt";
    const char *found = strchr(plain, letter);
    if (found)
        buffer_print(buffer, "\\%c", escaped[found - plain]);
    else if ((unsigned char)letter > 0x7f)
        buffer_add_text(buffer, "\\ufffd");
    else
        buffer_print(buffer, "\\u%04x", (unsigned)(unsigned char)letter);
}

enum error json_add_string(struct buffer *buffer, const char *text)
{
    /* A file's name may be anything. */
    unsigned char most = text_is_utf8(text, strlen(text)) ? UINT8_MAX : 0x7f;
    buffer_add(buffer, "\"", 1);
    while (*text) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && (unsigned char)text[plain] <= most &&
               text[plain] != '"' && text[plain] != '\\')
            plain++;
        buffer_add(buffer, text, plain);
        text += plain;
        if (*text)
            add_escaped(buffer, *text++);
    }
    return buffer_add(buffer, "\"", 1);
}

enum error json_add_strings(struct buffer *buffer, const char *const texts[], size_t count)
{
    buffer_add_text(buffer, "[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(buffer, i > 0 ? "," : "");
        json_add_string(buffer, texts[i]);
    }
    return buffer_add_text(buffer, "]");
}
