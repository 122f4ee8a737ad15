/* SPDX-License-Identifier: MIT */
#include "trainer/model/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/http_client.h"
#include "common/text.h"

#define ANSWER_LIMIT_BYTES (256 << 20) /* a million labels with their counts */

static bool is_integer(const char *text, int64_t *ret_value)
{
    return text_parse_integer(text, strlen(text), INT64_MIN, INT64_MAX, ret_value);
}

static int compare_integers(const void *a, const void *b)
{
    int64_t left = 0, right = 0;
    is_integer(*(char *const *)a, &left);
    is_integer(*(char *const *)b, &right);
    return (left > right) - (left < right);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum error label_text(const cJSON *label, const char *what, char **ret_text)
{
    char number[TEXT_INTEGER_BYTES + 1];
    const char *text = number;
    int64_t integer;
    if (cJSON_IsString(label))
        text = label->valuestring;
    else if (json_integer(label, &integer))
        *text_write_integer(number, integer) = '\0';
    else
        return error_set(ERROR_INPUT, "%s: a label is neither a text nor an integer within 64 bits",
                         what);
    *ret_text = strdup(text);
    return *ret_text ? OK : error_set_memory(strlen(text), "a label");
}

static enum error check_distinct(const struct classes *classes, const char *what)
{
    char quoted[TEXT_QUOTE_BYTES];
    for (size_t i = 1; i < classes->count; i++) {
        const char *text = classes->texts[i];
        if (strcmp(classes->texts[i - 1], text) == 0)
            return error_set(ERROR_INPUT, "%s: label %s comes twice", what,
                             text_quote(quoted, sizeof(quoted), text, strlen(text)));
    }
    return OK;
}

static enum error take_labels(struct classes *classes, const cJSON *labels, const char *what)
{
    classes->integers = true;
    const cJSON *label;
    cJSON_ArrayForEach(label, labels)
    {
        enum error error = label_text(label, what, &classes->texts[classes->count]);
        if (error)
            return error;
        classes->integers = classes->integers && cJSON_IsNumber(label);
        classes->count++;
    }
    qsort(classes->texts, classes->count, sizeof(*classes->texts),
          classes->integers ? compare_integers : compare_texts);
    return check_distinct(classes, what);
}

enum error classes_new(const cJSON *labels, const char *what, struct classes **ret_classes)
{
    int size = cJSON_IsArray(labels) ? cJSON_GetArraySize(labels) : 0;
    if (size < 1 || size > CLASSES_LIMIT)
        return error_set(ERROR_INPUT, "%s has %d labels; 1 to %d are supported", what, size,
                         CLASSES_LIMIT);
    struct classes *classes = array_new(1, sizeof(*classes), "the classes");
    if (!classes)
        return ERROR_MEMORY;
    classes->texts = array_new((size_t)size, sizeof(*classes->texts), "the classes");
    enum error error = classes->texts ? take_labels(classes, labels, what) : ERROR_MEMORY;
    if (error) {
        classes_free(classes);
        return error;
    }
    *ret_classes = classes;
    return OK;
}

void classes_free(struct classes *classes)
{
    if (!classes)
        return;
    for (size_t i = 0; classes->texts && i < classes->count; i++)
        free(classes->texts[i]);
    free(classes->texts);
    free(classes);
}

enum error classes_print(const struct classes *classes, struct buffer *out)
{
    buffer_add_text(out, "[");
    for (size_t i = 0; i < classes->count; i++) {
        buffer_add_text(out, i > 0 ? "," : "");
        if (classes->integers)
            buffer_add_text(out, classes->texts[i]);
        else
            json_add_string(out, classes->texts[i]);
    }
    return buffer_add_text(out, "]");
}

int32_t classes_find(const struct classes *classes, const char *text)
{
    char **found = NULL;
    int64_t value;
    if (!classes->integers)
        found =
            bsearch(&text, classes->texts, classes->count, sizeof(*classes->texts), compare_texts);
    else if (is_integer(text, &value))
        found = bsearch(&text, classes->texts, classes->count, sizeof(*classes->texts),
                        compare_integers);
    return found ? (int32_t)(found - classes->texts) : -1;
}

size_t classes_choose(const float *scores, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        if (scores[i] > scores[best])
            best = i;
    }
    return best;
}

const char *classes_describe(const struct classes *classes, char *out, size_t bytes)
{
    const size_t shown = 6;
    size_t used = 0;
    out[0] = '\0';
    char quoted[TEXT_QUOTE_BYTES];
    for (size_t i = 0; i < classes->count && used < bytes; i++) {
        const char *text = classes->texts[i];
        bool gap = i == shown && classes->count > shown + 1;
        if (gap)
            i = classes->count - 1, text = classes->texts[i];
        if (!classes->integers)
            text = text_quote(quoted, sizeof(quoted), text, strlen(text));
        used += (size_t)snprintf(out + used, bytes - used, "%s%s%s", used ? ", " : "",
                                 gap ? "... " : "", text);
    }
    return out;
}

enum error classes_compare(const struct classes *a, const char *theirs, const struct classes *b,
                           const char *ours)
{
    size_t both = a->count < b->count ? a->count : b->count, i = 0;
    while (i < both && strcmp(a->texts[i], b->texts[i]) == 0)
        i++;
    if (i == a->count && i == b->count && a->integers == b->integers)
        return OK;
    if (i == both && a->count != b->count)
        return error_set(ERROR_CONFLICT, "%s has %zu %s, %s has %zu", theirs, a->count,
                         text_plural(a->count, "class", "classes"), ours, b->count);
    if (i == both)
        return error_set(ERROR_CONFLICT, "the classes of %s are %s, those of %s are %s", theirs,
                         a->integers ? "numbers" : "texts", ours,
                         b->integers ? "numbers" : "texts");
    char left[TEXT_QUOTE_BYTES], right[TEXT_QUOTE_BYTES];
    return error_set(ERROR_CONFLICT, "class %zu of %s is %s, of %s it is %s", i, theirs,
                     text_quote(left, sizeof(left), a->texts[i], strlen(a->texts[i])), ours,
                     text_quote(right, sizeof(right), b->texts[i], strlen(b->texts[i])));
}

/* ---- from the sampler --------------------------------------------------- */

/* [{"label":0,...},...] -> [0,...], items borrowed from `json`. */
static enum error collect_labels(const cJSON *json, const char *what, cJSON **ret_labels)
{
    const cJSON *list, *entry;
    enum error error = json_get_array(json, "labels", what, &list);
    if (error)
        return error;
    cJSON *labels = cJSON_CreateArray();
    if (!labels)
        return error_set_memory(1, "a list of labels");
    cJSON_ArrayForEach(entry, list)
    {
        cJSON *label = cJSON_GetObjectItemCaseSensitive(entry, "label");
        if (!label)
            error = error_set(ERROR_INPUT, "%s has an entry without a label", what);
        else if (!cJSON_AddItemReferenceToArray(labels, label))
            error = error_set_memory(1, "a list of labels");
        if (error) {
            cJSON_Delete(labels);
            return error;
        }
    }
    *ret_labels = labels;
    return OK;
}

static enum error parse_labels(const struct http_response *response, const char *what,
                               struct classes **ret_classes)
{
    const char *text = response->body.data ? response->body.data : "";
    cJSON *json = NULL, *labels = NULL;
    enum error error = json_parse(text, response->body.length, what, &json);
    if (!error)
        error = collect_labels(json, what, &labels);
    if (!error)
        error = classes_new(labels, what, ret_classes);
    cJSON_Delete(labels);
    cJSON_Delete(json);
    return error;
}

enum error classes_fetch(const char *url, const char *stream, int64_t patience_ms,
                         struct classes **ret_classes)
{
    struct http_response response = HTTP_RESPONSE_INIT(ANSWER_LIMIT_BYTES);
    struct http_client *client = NULL;
    char target[160], what[400], problem[400];
    enum error error = http_client_open(url, NULL, &client);
    snprintf(target, sizeof(target), "/labels?stream=%s", stream);
    snprintf(what, sizeof(what), "the sampler's answer to GET %.200s%s", url, target);
    if (!error)
        error = http_client_get(client, target, patience_ms, true, &response);
    if (!error && response.status != 200) {
        http_response_problem(&response, problem, sizeof(problem));
        error = error_set(ERROR_NETWORK, "%s is %d: %s", what, response.status, problem);
    } else if (!error) {
        error = parse_labels(&response, what, ret_classes);
    }
    http_client_close(client);
    http_response_release(&response);
    return error;
}
