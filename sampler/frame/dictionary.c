/* SPDX-License-Identifier: MIT */
#include "sampler/frame/dictionary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

void dictionary_release(struct dictionary *names)
{
    if (!names->is_borrowed) {
        free(names->texts);
        packed_release(&names->offsets);
    }
    *names = (struct dictionary){.count = 0};
}

int64_t dictionary_integer(const struct dictionary *names, uint32_t number)
{
    const char *text = dictionary_text(names, number);
    int64_t value = 0;
    if (names->are_integers &&
        !text_parse_integer(text, strlen(text), INT64_MIN, INT64_MAX, &value))
        return 0;
    return value;
}

static int compare(const struct dictionary *names, uint32_t number, const char *text, size_t length,
                   int64_t value)
{
    if (names->are_integers) {
        int64_t own = dictionary_integer(names, number);
        return (own > value) - (own < value);
    }
    const char *own = dictionary_text(names, number);
    size_t own_length = strlen(own);
    int order = memcmp(own, text, own_length < length ? own_length : length);
    return order ? order : (own_length > length) - (own_length < length);
}

int64_t dictionary_find(const struct dictionary *names, const char *text, size_t length)
{
    int64_t value = 0;
    if (names->are_integers && !text_parse_integer(text, length, INT64_MIN, INT64_MAX, &value))
        return -1;
    uint32_t low = 0, high = names->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(names, middle, text, length, value) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == names->count || strncmp(dictionary_text(names, low), text, length) != 0 ||
        dictionary_text(names, low)[length] != '\0')
        return -1;
    return low;
}

enum error dictionary_of_range(uint32_t count, struct dictionary *ret_names)
{
    struct dictionary names = {.count = count, .are_integers = true};
    enum error error = ERROR_MEMORY;
    size_t room = (size_t)count * 9 + TEXT_INTEGER_BYTES; /* DICTIONARY_LIMIT has 8 digits */
    names.texts = array_new(room, 1, "the labels' texts");
    if (!names.texts)
        goto out;
    error = packed_init(&names.offsets, (size_t)count + 1, room, "the labels' texts");
    if (error)
        goto out;
    char *end = names.texts;
    for (uint32_t i = 0; i < count; i++) {
        packed_set(&names.offsets, i, (size_t)(end - names.texts));
        end = text_write_integer(end, i);
        *end++ = '\0';
    }
    names.text_bytes = (size_t)(end - names.texts);
    packed_set(&names.offsets, count, names.text_bytes);
    char *smaller = realloc(names.texts, names.text_bytes ? names.text_bytes : 1);
    if (smaller)
        names.texts = smaller;
    *ret_names = names;
    names = (struct dictionary){.count = 0};
    error = OK;
out:
    dictionary_release(&names);
    return error;
}

/* ---- finding ------------------------------------------------------------ */

static enum error check_text(const struct text_set *found, const char *what, const char *text,
                             size_t length)
{
    char shown[TEXT_QUOTE_BYTES];
    if (length == 0)
        return error_set(ERROR_INPUT, "the %s is empty", what);
    if (length > DICTIONARY_TEXT_LIMIT)
        return error_set(ERROR_INPUT, "the %s %s has %zu bytes, at most %d are allowed", what,
                         text_quote(shown, sizeof(shown), text, length), length,
                         DICTIONARY_TEXT_LIMIT);
    if (!text_is_utf8(text, length))
        return error_set(ERROR_INPUT, "the %s %s is not UTF-8", what,
                         text_quote(shown, sizeof(shown), text, length));
    if (found->count > DICTIONARY_LIMIT)
        return error_set(ERROR_INPUT,
                         "more than %" PRIu32 " different texts in the column of the %s: is that "
                         "the right column?",
                         DICTIONARY_LIMIT, what);
    return OK;
}

enum error dictionary_add(struct text_set *found, const char *what, const char *text, size_t length,
                          uint32_t *ret_number)
{
    size_t known = found->count;
    enum error error = text_set_add(found, text, length, ret_number);
    return error || *ret_number < known ? error : check_text(found, what, text, length);
}

/* ---- sorting ------------------------------------------------------------ */

struct sorted_name {
    const char *text;
    int64_t value;
    uint32_t number;
};

static int compare_values(const void *a, const void *b)
{
    int64_t x = ((const struct sorted_name *)a)->value, y = ((const struct sorted_name *)b)->value;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct sorted_name *)a)->text, ((const struct sorted_name *)b)->text);
}

static bool parse_canonical(const char *text, size_t length, int64_t *ret_value)
{
    char again[TEXT_INTEGER_BYTES];
    if (!text_parse_integer(text, length, INT64_MIN, INT64_MAX, ret_value))
        return false;
    return (size_t)(text_write_integer(again, *ret_value) - again) == length &&
           memcmp(again, text, length) == 0;
}

/* The texts in their final order; *ret_integers says which order it is. */
static struct sorted_name *sort_names(const struct text_set *found, bool *ret_integers)
{
    struct sorted_name *sorted = array_new(found->count, sizeof(*sorted), "sorting labels");
    if (!sorted)
        return NULL;
    bool integers = true;
    for (size_t i = 0; i < found->count; i++) {
        const struct text *text = &found->texts[i];
        sorted[i].text = text->data;
        sorted[i].number = (uint32_t)i;
        integers = integers && parse_canonical(text->data, text->length, &sorted[i].value);
    }
    qsort(sorted, found->count, sizeof(*sorted), integers ? compare_values : compare_texts);
    *ret_integers = integers;
    return sorted;
}

enum error dictionary_build(const struct text_set *found, struct dictionary *ret_names,
                            uint32_t **ret_ranks)
{
    struct dictionary names = {.count = (uint32_t)found->count};
    enum error error = ERROR_MEMORY;
    for (size_t i = 0; i < found->count; i++)
        names.text_bytes += found->texts[i].length + 1;
    uint32_t *ranks = array_new(found->count, sizeof(*ranks), "sorting labels");
    struct sorted_name *sorted = sort_names(found, &names.are_integers);
    names.texts = array_new(names.text_bytes, 1, "the labels' texts");
    if (!ranks || !sorted || !names.texts)
        goto out;
    error = packed_init(&names.offsets, found->count + 1, names.text_bytes, "the labels' texts");
    if (error)
        goto out;
    size_t offset = 0;
    for (uint32_t i = 0; i < names.count; i++) {
        size_t bytes = found->texts[sorted[i].number].length + 1;
        memcpy(names.texts + offset, sorted[i].text, bytes);
        packed_set(&names.offsets, i, offset);
        offset += bytes;
        ranks[sorted[i].number] = i;
    }
    packed_set(&names.offsets, names.count, offset);
    *ret_names = names;
    *ret_ranks = ranks;
    names = (struct dictionary){.count = 0};
    ranks = NULL;
out:
    dictionary_release(&names);
    free(ranks);
    free(sorted);
    return error;
}
