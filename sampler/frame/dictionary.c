/* SPDX-License-Identifier: MIT */
#include "sampler/frame/dictionary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

void dictionary_release(struct dictionary *dictionary)
{
    if (!dictionary->is_borrowed) {
        free(dictionary->texts);
        packed_release(&dictionary->offsets);
    }
    *dictionary = (struct dictionary){.count = 0};
}

int64_t dictionary_integer(const struct dictionary *dictionary, uint32_t number)
{
    const char *text = dictionary_text(dictionary, number);
    int64_t value = 0;
    if (dictionary->are_integers &&
        !text_parse_integer(text, strlen(text), INT64_MIN, INT64_MAX, &value))
        return 0;
    return value;
}

struct entry {
    const char *text;
    size_t length;
    int64_t value; /* in a dictionary of integers */
};

static int compare(const struct dictionary *dictionary, const struct entry *a,
                   const struct entry *b)
{
    if (dictionary->are_integers)
        return (a->value > b->value) - (a->value < b->value);
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* ---- one that was read -------------------------------------------------- */

static bool parse_canonical(const char *text, size_t length, int64_t *ret_value)
{
    char again[TEXT_INTEGER_BYTES];
    if (!text_parse_integer(text, length, INT64_MIN, INT64_MAX, ret_value))
        return false;
    return (size_t)(text_write_integer(again, *ret_value) - again) == length &&
           memcmp(again, text, length) == 0;
}

/* Does text `number` begin at `at` and end with a NUL where the next one begins? */
static bool read_entry(const struct dictionary *dictionary, uint32_t number, size_t at,
                       struct entry *ret_entry)
{
    size_t end = (size_t)packed_get(&dictionary->offsets, (size_t)number + 1);
    if (packed_get(&dictionary->offsets, number) != at || end <= at + 1 ||
        end > dictionary->text_bytes || end - at - 1 > DICTIONARY_TEXT_LIMIT)
        return false;
    *ret_entry = (struct entry){.text = dictionary->texts + at, .length = end - at - 1};
    if (dictionary->texts[end - 1] != '\0' || !text_is_utf8(ret_entry->text, ret_entry->length))
        return false;
    return !dictionary->are_integers ||
           parse_canonical(ret_entry->text, ret_entry->length, &ret_entry->value);
}

bool dictionary_is_sound(const struct dictionary *dictionary)
{
    struct entry entry, before = {.text = NULL};
    size_t end = 0;
    for (uint32_t i = 0; i < dictionary->count; i++) {
        if (!read_entry(dictionary, i, end, &entry))
            return false;
        if (i > 0 && compare(dictionary, &before, &entry) >= 0)
            return false;
        end += entry.length + 1;
        before = entry;
    }
    return end == dictionary->text_bytes;
}

/* ---- questions ---------------------------------------------------------- */

static struct entry entry_at(const struct dictionary *dictionary, uint32_t number)
{
    const char *text = dictionary_text(dictionary, number);
    return (struct entry){
        .text = text,
        .length = strlen(text),
        .value = dictionary_integer(dictionary, number),
    };
}

int64_t dictionary_find(const struct dictionary *dictionary, const char *text, size_t length)
{
    struct entry sought = {.text = text, .length = length};
    if (dictionary->are_integers &&
        !text_parse_integer(text, length, INT64_MIN, INT64_MAX, &sought.value))
        return -1;
    uint32_t low = 0, high = dictionary->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct entry own = entry_at(dictionary, middle);
        if (compare(dictionary, &own, &sought) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == dictionary->count || strncmp(dictionary_text(dictionary, low), text, length) != 0 ||
        dictionary_text(dictionary, low)[length] != '\0')
        return -1;
    return low;
}

enum error dictionary_of_range(uint32_t count, struct dictionary *ret_dictionary)
{
    struct dictionary made = {.count = count, .are_integers = true};
    enum error error = ERROR_MEMORY;
    size_t room = (size_t)count * 9 + TEXT_INTEGER_BYTES; /* DICTIONARY_LIMIT has 8 digits */
    made.texts = array_new(room, 1, "the labels' texts");
    if (!made.texts)
        goto out;
    error = packed_init(&made.offsets, (size_t)count + 1, room, "the labels' texts");
    if (error)
        goto out;
    char *end = made.texts;
    for (uint32_t i = 0; i < count; i++) {
        packed_set(&made.offsets, i, (size_t)(end - made.texts));
        end = text_write_integer(end, i);
        *end++ = '\0';
    }
    made.text_bytes = (size_t)(end - made.texts);
    packed_set(&made.offsets, count, made.text_bytes);
    char *smaller = realloc(made.texts, made.text_bytes ? made.text_bytes : 1);
    if (smaller)
        made.texts = smaller;
    *ret_dictionary = made;
    made = (struct dictionary){.count = 0};
    error = OK;
out:
    dictionary_release(&made);
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

struct sorted_text {
    const char *text;
    int64_t value;
    uint32_t number;
};

static int compare_values(const void *a, const void *b)
{
    int64_t x = ((const struct sorted_text *)a)->value, y = ((const struct sorted_text *)b)->value;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct sorted_text *)a)->text, ((const struct sorted_text *)b)->text);
}

/* Sorts the texts into their final order; *ret_integers tells which order. */
static struct sorted_text *sort_texts(const struct text_set *found, bool *ret_integers)
{
    struct sorted_text *sorted = array_new(found->count, sizeof(*sorted), "sorting labels");
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

enum error dictionary_build(const struct text_set *found, struct dictionary *ret_dictionary,
                            uint32_t **ret_ranks)
{
    struct dictionary made = {.count = (uint32_t)found->count};
    enum error error = ERROR_MEMORY;
    for (size_t i = 0; i < found->count; i++)
        made.text_bytes += found->texts[i].length + 1;
    uint32_t *ranks = array_new(found->count, sizeof(*ranks), "sorting labels");
    struct sorted_text *sorted = sort_texts(found, &made.are_integers);
    made.texts = array_new(made.text_bytes, 1, "the labels' texts");
    if (!ranks || !sorted || !made.texts)
        goto out;
    error = packed_init(&made.offsets, found->count + 1, made.text_bytes, "the labels' texts");
    if (error)
        goto out;
    size_t offset = 0;
    for (uint32_t i = 0; i < made.count; i++) {
        size_t bytes = found->texts[sorted[i].number].length + 1;
        memcpy(made.texts + offset, sorted[i].text, bytes);
        packed_set(&made.offsets, i, offset);
        offset += bytes;
        ranks[sorted[i].number] = i;
    }
    packed_set(&made.offsets, made.count, offset);
    *ret_dictionary = made;
    *ret_ranks = ranks;
    made = (struct dictionary){.count = 0};
    ranks = NULL;
out:
    dictionary_release(&made);
    free(ranks);
    free(sorted);
    return error;
}
