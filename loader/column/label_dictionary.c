/* SPDX-License-Identifier: MIT */
#include "loader/column/label_dictionary.h"

#include <stdlib.h>
#include <string.h>

#include "common/text.h"

const char *const label_kind_names[4] = {[LABEL_NONE] = "none",
                                         [LABEL_INTEGER] = "integer",
                                         [LABEL_REAL] = "real",
                                         [LABEL_TEXT] = "text"};

/* A canonical integer, of whatever size? */
static bool is_integer(const char *text, size_t length)
{
    size_t sign = length > 0 && text[0] == '-';
    if (length == sign || (text[sign] == '0' && (sign || length > 1)))
        return false;
    for (size_t i = sign; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return true;
}

/* Leading zeros belong to a name (a postcode, a product code): as a number it would be another
 * text. */
static bool has_zeros_in_front(const char *text, size_t length)
{
    size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
    size_t i = sign;
    while (i < length && text[i] >= '0' && text[i] <= '9')
        i++;
    return i == length && length > sign + 1 && text[sign] == '0';
}

void label_kind_add(struct label_kinds *kinds, const char *text, size_t length)
{
    int64_t integer;
    double real;
    if (is_integer(text, length)) {
        if (text_parse_integer(text, length, -TEXT_EXACT, TEXT_EXACT, &integer))
            kinds->integers = true;
        else
            kinds->texts = true;
    } else if (kinds->texts) {
        return;
    } else if (!has_zeros_in_front(text, length) && text_parse_real(text, length, &real)) {
        kinds->reals = true;
    } else {
        kinds->texts = true;
    }
}

void label_kind_merge(struct label_kinds *kinds, const struct label_kinds *others)
{
    kinds->integers |= others->integers;
    kinds->reals |= others->reals;
    kinds->texts |= others->texts;
}

bool labels_are_integers(const char *const texts[], size_t count)
{
    int64_t integer;
    size_t i = 0;
    while (i < count && is_integer(texts[i], strlen(texts[i])) &&
           text_parse_integer(texts[i], strlen(texts[i]), INT64_MIN, INT64_MAX, &integer))
        i++;
    return i == count;
}

enum label_kind label_kind_of(const struct label_kinds *kinds)
{
    if (kinds->texts)
        return LABEL_TEXT;
    return kinds->reals ? LABEL_REAL : LABEL_INTEGER;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct text *)a)->data, ((const struct text *)b)->data);
}

void label_dictionary_finish(struct label_dictionary *dictionary)
{
    struct text *sorted = dictionary->found.texts;
    size_t count = dictionary->found.count;
    if (count > 0)
        qsort(sorted, count, sizeof(*sorted), compare_texts);
    /* Reuses the front of the list, which has already been read, so that finishing cannot fail. */
    const char **texts = (const char **)sorted;
    for (size_t i = 0; i < count; i++) {
        const char *text = sorted[i].data;
        texts[i] = text;
    }
    dictionary->texts = texts;
    dictionary->count = count;
    dictionary->found.texts = NULL;
    dictionary->found.count = dictionary->found.capacity = 0;
    text_set_finish(&dictionary->found);
}

void label_dictionary_release(struct label_dictionary *dictionary)
{
    free(dictionary->texts);
    text_set_release(&dictionary->found);
    *dictionary = (struct label_dictionary){.kind = LABEL_NONE};
}

static bool find_text(const struct label_dictionary *dictionary, const char *text, size_t length,
                      double *ret_value)
{
    size_t number = text_find(text, length, dictionary->texts, dictionary->count);
    if (number == dictionary->count)
        return false;
    *ret_value = (double)number;
    return true;
}

bool label_value(const struct label_dictionary *dictionary, const char *text, size_t length,
                 double *ret_value)
{
    int64_t integer;
    switch (dictionary->kind) {
    case LABEL_NONE:
        *ret_value = 0;
        return true;
    case LABEL_INTEGER:
        if (!is_integer(text, length) ||
            !text_parse_integer(text, length, -TEXT_EXACT, TEXT_EXACT, &integer))
            return false;
        *ret_value = (double)integer;
        return true;
    case LABEL_REAL:
        return text_parse_real(text, length, ret_value);
    case LABEL_TEXT:
        return find_text(dictionary, text, length, ret_value);
    }
    return false;
}
