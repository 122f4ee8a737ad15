#include "loader/csv/block_dictionary.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"

#define FIRST_SLOTS 256

static const char block_memory[] = "the labels of a block of rows";

void block_dictionary_clear(struct block_dictionary *texts)
{
    if (texts->count > 0) {
        memset(texts->slots, 0, texts->slot_count * sizeof(*texts->slots));
        memset(texts->small, 0, sizeof(texts->small));
    }
    texts->count = 0;
}

void block_dictionary_release(struct block_dictionary *texts)
{
    free(texts->texts);
    free(texts->hashes);
    free(texts->slots);
    texts->texts = NULL;
    texts->hashes = NULL;
    texts->slots = NULL;
    texts->count = texts->capacity = texts->hash_capacity = texts->slot_count = 0;
}

static enum error grow_slots(struct block_dictionary *texts)
{
    size_t count = texts->slot_count ? texts->slot_count * 4 : FIRST_SLOTS;
    uint32_t *slots = array_new(count, sizeof(*slots), block_memory);
    if (!slots)
        return ERROR_MEMORY;
    for (size_t i = 0; i < texts->count; i++) {
        size_t slot = texts->hashes[i] & (count - 1);
        while (slots[slot] != 0)
            slot = (slot + 1) & (count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    free(texts->slots);
    texts->slots = slots;
    texts->slot_count = count;
    return OK;
}

static size_t find_slot(const struct block_dictionary *texts, uint64_t hash, const char *text,
                        size_t length)
{
    size_t mask = texts->slot_count - 1;
    size_t slot = hash & mask;
    for (; texts->slots[slot] != 0; slot = (slot + 1) & mask) {
        size_t number = texts->slots[slot] - 1;
        if (texts->hashes[number] == hash && texts->texts[number].length == length &&
            memcmp(texts->texts[number].data, text, length) == 0)
            break;
    }
    return slot;
}

enum error block_dictionary_add(struct block_dictionary *texts, const char *text, size_t length,
                                uint32_t *ret_number)
{
    enum error error = OK;
    if (texts->count >= texts->slot_count / 2)
        error = grow_slots(texts);
    if (error)
        return error;
    uint64_t hash = XXH3_64bits(text, length);
    size_t slot = find_slot(texts, hash, text, length);
    if (texts->slots[slot] == 0) {
        error = array_grow((void **)&texts->texts, &texts->capacity, texts->count + 1,
                           sizeof(*texts->texts), block_memory);
        if (!error)
            error = array_grow((void **)&texts->hashes, &texts->hash_capacity, texts->count + 1,
                               sizeof(*texts->hashes), block_memory);
        if (error)
            return error;
        texts->texts[texts->count] = (struct text){.data = text, .length = length};
        texts->hashes[texts->count++] = hash;
        texts->slots[slot] = (uint32_t)texts->count;
    }
    *ret_number = texts->slots[slot] - 1;
    return OK;
}
