/* Texts are found by an open hash table of numbers; the texts themselves lie one behind the other.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/frame/dictionary.h"

#define EMPTY UINT32_MAX
#define FIRST_SLOTS 64

struct text_entry {
    uint64_t hash;
    size_t offset; /* into texts; NUL-terminated there */
    size_t length;
};

struct dictionary_builder {
    const char *what;
    char *texts;
    size_t text_bytes, text_capacity;
    struct text_entry *entries; /* [count] */
    size_t count, entry_capacity;
    uint32_t *slots; /* numbers, or EMPTY; a power of two, at most half full */
    size_t slot_count;
    uint32_t latest; /* rows of one label often follow each other */
};

static enum error new_slots(size_t count, uint32_t **ret_slots)
{
    uint32_t *slots = array_new(count, sizeof(*slots), "a table of labels");
    if (!slots)
        return ERROR_MEMORY;
    memset(slots, 0xff, count * sizeof(*slots));
    *ret_slots = slots;
    return OK;
}

enum error dictionary_builder_new(const char *what, struct dictionary_builder **ret_builder)
{
    struct dictionary_builder *builder = array_new(1, sizeof(*builder), "a table of labels");
    if (!builder)
        return ERROR_MEMORY;
    builder->what = what;
    builder->slot_count = FIRST_SLOTS;
    enum error error = new_slots(FIRST_SLOTS, &builder->slots);
    if (error) {
        dictionary_builder_free(builder);
        return error;
    }
    *ret_builder = builder;
    return OK;
}

void dictionary_builder_free(struct dictionary_builder *builder)
{
    if (!builder)
        return;
    free(builder->texts);
    free(builder->entries);
    free(builder->slots);
    free(builder);
}

static bool is_entry(const struct dictionary_builder *builder, uint32_t number, const char *text,
                     size_t length)
{
    const struct text_entry *entry = &builder->entries[number];
    return entry->length == length && memcmp(builder->texts + entry->offset, text, length) == 0;
}

/* The slot that holds the text, or the empty one where it belongs. */
static size_t find_slot(const struct dictionary_builder *builder, uint64_t hash, const char *text,
                        size_t length)
{
    size_t mask = builder->slot_count - 1;
    size_t slot = hash & mask;
    while (builder->slots[slot] != EMPTY &&
           (builder->entries[builder->slots[slot]].hash != hash ||
            !is_entry(builder, builder->slots[slot], text, length)))
        slot = (slot + 1) & mask;
    return slot;
}

static enum error grow_slots(struct dictionary_builder *builder)
{
    uint32_t *slots = NULL;
    size_t mask = builder->slot_count * 2 - 1;
    enum error error = new_slots(mask + 1, &slots);
    if (error)
        return error;
    for (size_t i = 0; i < builder->count; i++) {
        size_t slot = builder->entries[i].hash & mask;
        while (slots[slot] != EMPTY)
            slot = (slot + 1) & mask;
        slots[slot] = (uint32_t)i;
    }
    free(builder->slots);
    builder->slots = slots;
    builder->slot_count = mask + 1;
    return OK;
}

static enum error check_text(const struct dictionary_builder *builder, const char *text,
                             size_t length)
{
    char shown[TEXT_QUOTE_BYTES];
    if (length == 0)
        return error_set(ERROR_INPUT, "the %s is empty", builder->what);
    if (length > DICTIONARY_TEXT_LIMIT)
        return error_set(ERROR_INPUT, "the %s %s has %zu bytes, at most %d are allowed",
                         builder->what, text_quote(shown, sizeof(shown), text, length), length,
                         DICTIONARY_TEXT_LIMIT);
    if (!text_is_utf8(text, length))
        return error_set(ERROR_INPUT, "the %s %s is not UTF-8", builder->what,
                         text_quote(shown, sizeof(shown), text, length));
    if (builder->count >= DICTIONARY_LIMIT)
        return error_set(ERROR_INPUT,
                         "more than %" PRIu32 " different texts in the column of the %s: is that "
                         "the right column?",
                         DICTIONARY_LIMIT, builder->what);
    return OK;
}

static enum error append(struct dictionary_builder *builder, const char *text, size_t length,
                         uint64_t hash, size_t slot)
{
    enum error error = check_text(builder, text, length);
    if (!error)
        error = array_grow((void **)&builder->texts, &builder->text_capacity,
                           builder->text_bytes + length + 1, 1, "the labels' texts");
    if (!error)
        error = array_grow((void **)&builder->entries, &builder->entry_capacity, builder->count + 1,
                           sizeof(*builder->entries), "a table of labels");
    if (error)
        return error;
    memcpy(builder->texts + builder->text_bytes, text, length);
    builder->texts[builder->text_bytes + length] = '\0';
    builder->entries[builder->count] =
        (struct text_entry){.hash = hash, .offset = builder->text_bytes, .length = length};
    builder->text_bytes += length + 1;
    builder->slots[slot] = (uint32_t)builder->count++;
    return builder->count * 2 > builder->slot_count ? grow_slots(builder) : OK;
}

enum error dictionary_builder_add(struct dictionary_builder *builder, const char *text,
                                  size_t length, uint32_t *ret_number)
{
    if (builder->count > 0 && is_entry(builder, builder->latest, text, length)) {
        *ret_number = builder->latest;
        return OK;
    }
    uint64_t hash = XXH3_64bits(text, length);
    size_t slot = find_slot(builder, hash, text, length);
    uint32_t number = builder->slots[slot];
    if (number == EMPTY) {
        number = (uint32_t)builder->count;
        enum error error = append(builder, text, length, hash, slot);
        if (error)
            return error;
    }
    builder->latest = number;
    *ret_number = number;
    return OK;
}

size_t dictionary_builder_count(const struct dictionary_builder *builder)
{
    return builder->count;
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

/* The entries in their final order; *ret_integers says which order it is. */
static struct sorted_name *sort_names(const struct dictionary_builder *builder, bool *ret_integers)
{
    struct sorted_name *sorted = array_new(builder->count, sizeof(*sorted), "sorting labels");
    if (!sorted)
        return NULL;
    bool integers = true;
    for (size_t i = 0; i < builder->count; i++) {
        const struct text_entry *entry = &builder->entries[i];
        sorted[i].text = builder->texts + entry->offset;
        sorted[i].number = (uint32_t)i;
        integers = integers && parse_canonical(sorted[i].text, entry->length, &sorted[i].value);
    }
    qsort(sorted, builder->count, sizeof(*sorted), integers ? compare_values : compare_texts);
    *ret_integers = integers;
    return sorted;
}

enum error dictionary_build(const struct dictionary_builder *builder, struct dictionary *ret_names,
                            uint32_t **ret_ranks)
{
    struct dictionary names = {.count = (uint32_t)builder->count,
                               .text_bytes = builder->text_bytes};
    enum error error = ERROR_MEMORY;
    uint32_t *ranks = array_new(builder->count, sizeof(*ranks), "sorting labels");
    struct sorted_name *sorted = sort_names(builder, &names.are_integers);
    names.texts = array_new(builder->text_bytes, 1, "the labels' texts");
    if (!ranks || !sorted || !names.texts)
        goto out;
    error =
        packed_init(&names.offsets, builder->count + 1, builder->text_bytes, "the labels' texts");
    if (error)
        goto out;
    size_t offset = 0;
    for (uint32_t i = 0; i < names.count; i++) {
        size_t bytes = builder->entries[sorted[i].number].length + 1;
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
