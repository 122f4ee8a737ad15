#include "common/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json_check.h"
#include "common/text.h"

#define EXACT_INTEGER_LIMIT 9007199254740992.0 /* 2^53 */

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

/* The whole tree; json_check() bounds the depth. */
static enum error check_tree(const cJSON *item, const char *what)
{
    enum error error = cJSON_IsObject(item) ? check_keys_once(item, what) : OK;
    for (const cJSON *child = item->child; child && !error; child = child->next)
        error = check_tree(child, what);
    return error;
}

enum error json_parse(const char *text, size_t length, const char *what, cJSON **ret_json)
{
    enum error error = json_check(text, length, what);
    if (error)
        return error;
    cJSON *json = cJSON_ParseWithLength(text, length);
    if (!json)
        return error_set_memory(length, what); /* the text is right: only memory can fail */
    error = check_tree(json, what);
    if (error) {
        cJSON_Delete(json);
        return error;
    }
    *ret_json = json;
    return OK;
}

static const char *kind_of(const cJSON *item)
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
        error_set(ERROR_INPUT, "\"%s\" in %s is %s, must be %s", key, what, kind_of(item),
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
    double value = item->valuedouble;
    if (value != floor(value) || fabs(value) > EXACT_INTEGER_LIMIT)
        return error_set(ERROR_INPUT,
                         "\"%s\" in %s is %.17g, must be an integer within -2^53 and 2^53", key,
                         what, value);
    *ret_value = (int64_t)value;
    return OK;
}

enum error json_get_real(const cJSON *object, const char *key, const char *what, double *ret_value)
{
    const cJSON *item = find(object, key, what, "a number", cJSON_IsNumber);
    if (!item)
        return ERROR_INPUT;
    if (!isfinite(item->valuedouble))
        return error_set(ERROR_INPUT, "\"%s\" in %s is too large for a number", key, what);
    *ret_value = item->valuedouble;
    return OK;
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

static enum error add_escaped(struct buffer *buffer, char letter)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char escaped[] = "\"\\bfnrt";
    const char *found = strchr(plain, letter);
    if (found) {
        char pair[] = {'\\', escaped[found - plain]};
        return buffer_add(buffer, pair, sizeof(pair));
    }
    return buffer_print(buffer, "\\u%04x", (unsigned)(unsigned char)letter);
}

enum error json_add_string(struct buffer *buffer, const char *text)
{
    enum error error = buffer_add(buffer, "\"", 1);
    while (*text && !error) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        error = buffer_add(buffer, text, plain);
        text += plain;
        if (*text && !error)
            error = add_escaped(buffer, *text++);
    }
    return error ? error : buffer_add(buffer, "\"", 1);
}
