#include "loader/store/label_dictionary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/text.h"

#define EXACT_LIMIT (INT64_C(1) << 53)
#define CHUNK_BYTES ((size_t)64 << 10)
#define TEXTS_LIMIT ((size_t)1 << 31)

bool label_is_integer(const char *text, size_t length)
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

/* Zeros in front of an integer belong to a name (a postcode, a code of the trade): as a number it
 * would be another text. */
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
    if (label_is_integer(text, length)) {
        if (text_parse_integer(text, length, -EXACT_LIMIT, EXACT_LIMIT, &integer))
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
    while (i < count && label_is_integer(texts[i], strlen(texts[i])) &&
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

/* The slot that holds the text, or the free one where it belongs. */
static size_t find_slot(const struct label_dictionary *dictionary, const char *text, size_t length)
{
    size_t mask = dictionary->slot_count - 1;
    size_t slot = (size_t)XXH3_64bits(text, length) & mask;
    while (dictionary->slots[slot] != 0) {
        const char *other = dictionary->texts[dictionary->slots[slot] - 1];
        if (strncmp(other, text, length) == 0 && other[length] == '\0')
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static enum error grow_slots(struct label_dictionary *dictionary)
{
    size_t count = dictionary->slot_count ? dictionary->slot_count * 2 : 64;
    uint32_t *slots = array_new(count, sizeof(*slots), "a dictionary of labels");
    if (!slots)
        return ERROR_MEMORY;
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->slot_count = count;
    for (size_t i = 0; i < dictionary->count; i++) {
        const char *text = dictionary->texts[i];
        slots[find_slot(dictionary, text, strlen(text))] = (uint32_t)(i + 1);
    }
    return OK;
}

static enum error copy_text(struct label_dictionary *dictionary, const char *text, size_t length,
                            const char **ret_copy)
{
    if (dictionary->chunk_bytes - dictionary->chunk_used < length + 1) {
        size_t bytes = length + 1 > CHUNK_BYTES ? length + 1 : CHUNK_BYTES;
        enum error error =
            array_grow((void **)&dictionary->chunks, &dictionary->chunks_capacity,
                       dictionary->chunk_count + 1, sizeof(char *), "a dictionary of labels");
        if (error)
            return error;
        char *chunk = array_new(bytes, 1, "a dictionary of labels");
        if (!chunk)
            return ERROR_MEMORY;
        dictionary->chunks[dictionary->chunk_count++] = chunk;
        dictionary->chunk_bytes = bytes;
        dictionary->chunk_used = 0;
    }
    char *copy = dictionary->chunks[dictionary->chunk_count - 1] + dictionary->chunk_used;
    memcpy(copy, text, length);
    copy[length] = '\0';
    dictionary->chunk_used += length + 1;
    *ret_copy = copy;
    return OK;
}

enum error label_dictionary_add(struct label_dictionary *dictionary, const char *text,
                                size_t length, size_t *ret_number)
{
    enum error error = OK;
    if (dictionary->count >= dictionary->slot_count / 2)
        error = grow_slots(dictionary);
    if (error)
        return error;
    size_t slot = find_slot(dictionary, text, length);
    if (dictionary->slots[slot] != 0) {
        if (ret_number)
            *ret_number = dictionary->slots[slot] - 1;
        return OK;
    }
    if (dictionary->count >= TEXTS_LIMIT)
        return error_set(ERROR_MEMORY, "over %zu different labels", TEXTS_LIMIT);
    error = array_grow((void **)&dictionary->texts, &dictionary->texts_capacity,
                       dictionary->count + 1, sizeof(char *), "a dictionary of labels");
    const char *copy = NULL;
    if (!error)
        error = copy_text(dictionary, text, length, &copy);
    if (error)
        return error;
    if (ret_number)
        *ret_number = dictionary->count;
    dictionary->texts[dictionary->count++] = copy;
    dictionary->slots[slot] = (uint32_t)dictionary->count;
    return OK;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void label_dictionary_finish(struct label_dictionary *dictionary)
{
    free(dictionary->slots);
    dictionary->slots = NULL;
    dictionary->slot_count = 0;
    if (dictionary->count > 0)
        qsort(dictionary->texts, dictionary->count, sizeof(char *), compare_texts);
}

void label_dictionary_release(struct label_dictionary *dictionary)
{
    for (size_t i = 0; i < dictionary->chunk_count; i++)
        free(dictionary->chunks[i]);
    free(dictionary->chunks);
    free(dictionary->texts);
    free(dictionary->slots);
    *dictionary = (struct label_dictionary){.kind = LABEL_NONE};
}

static bool find_text(const struct label_dictionary *dictionary, const char *text, size_t length,
                      double *ret_value)
{
    size_t low = 0;
    size_t high = dictionary->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = dictionary->texts[middle];
        int order = strncmp(other, text, length);
        if (order == 0)
            order = other[length] != '\0';
        if (order == 0) {
            *ret_value = (double)middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
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
        if (!label_is_integer(text, length) ||
            !text_parse_integer(text, length, -EXACT_LIMIT, EXACT_LIMIT, &integer))
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
