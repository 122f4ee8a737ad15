/* SPDX-License-Identifier: MIT */
#include "common/text_set.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"

#define CHUNK_BYTES ((size_t)64 << 10)

struct text_chunk {
    struct text_chunk *next;
    char bytes[];
};

static const char set_memory[] = "a set of texts";

static void free_chunks(struct text_set *set)
{
    while (set->chunks) {
        struct text_chunk *next = set->chunks->next;
        free(set->chunks);
        set->chunks = next;
    }
    set->room_bytes = 0;
}

void text_set_finish(struct text_set *set)
{
    free(set->hashes);
    set->hashes = NULL;
    set->hash_capacity = 0;
    hash_table_release(&set->numbers);
}

void text_set_release(struct text_set *set)
{
    free_chunks(set);
    free(set->texts);
    text_set_finish(set);
    *set = (struct text_set){.texts = NULL};
}

void text_set_clear(struct text_set *set)
{
    free_chunks(set);
    if (set->count > 0)
        hash_table_clear(&set->numbers);
    set->count = 0;
}

static uint64_t hash_of(const void *keys, uint32_t number)
{
    return ((const struct text_set *)keys)->hashes[number];
}

struct text_key {
    const struct text *texts;
    struct text text;
};

static inline bool is_text(const void *key, uint32_t number)
{
    const struct text_key *wanted = key;
    const struct text *text = &wanted->texts[number];
    return text->length == wanted->text.length &&
           memcmp(text->data, wanted->text.data, text->length) == 0;
}

/* Makes room for one more, so that only the copy can fail after it. */
static enum error reserve(struct text_set *set)
{
    if (set->count >= TEXT_SET_LIMIT)
        return error_set(ERROR_MEMORY, "over %u different texts", TEXT_SET_LIMIT);
    enum error error = array_grow((void **)&set->texts, &set->capacity, set->count + 1,
                                  sizeof(*set->texts), set_memory);
    if (!error)
        error = array_grow((void **)&set->hashes, &set->hash_capacity, set->count + 1,
                           sizeof(*set->hashes), set_memory);
    if (!error)
        error = hash_table_reserve(&set->numbers, set->count + 1, hash_of, set, set_memory);
    return error;
}

static enum error copy(struct text_set *set, struct text *text)
{
    if (set->room_bytes <= text->length) {
        size_t bytes = text->length < CHUNK_BYTES ? CHUNK_BYTES : text->length + 1;
        struct text_chunk *chunk = array_new(sizeof(*chunk) + bytes, 1, set_memory);
        if (!chunk)
            return ERROR_MEMORY;
        chunk->next = set->chunks;
        set->chunks = chunk;
        set->room = chunk->bytes;
        set->room_bytes = bytes;
    }
    memcpy(set->room, text->data, text->length);
    text->data = set->room;
    set->room += text->length;
    *set->room++ = '\0';
    set->room_bytes -= text->length + 1;
    return OK;
}

static inline enum error add(struct text_set *set, const char *text, size_t length, bool copied,
                             uint32_t *ret_number)
{
    uint64_t hash = XXH3_64bits(text, length);
    struct text_key key = {.texts = set->texts, .text = {.data = text, .length = length}};
    uint32_t number = hash_table_find(&set->numbers, hash, is_text, &key);
    if (__builtin_expect(number == HASH_TABLE_NONE, 0)) {
        enum error error = reserve(set);
        if (!error && copied)
            error = copy(set, &key.text);
        if (error)
            return error;
        number = (uint32_t)set->count++;
        set->texts[number] = key.text;
        set->hashes[number] = hash;
        hash_table_put(&set->numbers, hash, number);
    }
    if (ret_number)
        *ret_number = number;
    return OK;
}

enum error text_set_add(struct text_set *set, const char *text, size_t length, uint32_t *ret_number)
{
    return add(set, text, length, true, ret_number);
}

enum error text_set_borrow(struct text_set *set, const char *text, size_t length,
                           uint32_t *ret_number)
{
    return add(set, text, length, false, ret_number);
}
