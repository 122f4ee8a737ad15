#include "sampler/frame/dictionary.h"

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
