/*
 * The different texts of one column of a block of rows, numbered in the order of their first rows:
 * struct store_codes while it is made. What labels are nearly always - a few short texts, small
 * numbers - costs a look into a table a row. One thread; used again for block after block.
 */
#ifndef LOADER_CSV_BLOCK_DICTIONARY_H
#define LOADER_CSV_BLOCK_DICTIONARY_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

#define BLOCK_DICTIONARY_SMALL 1000 /* numbers below it have a table of their own */

/* Zeroed: empty. */
struct block_dictionary {
    struct text *texts; /* owned; [count]; the bytes are the caller's */
    uint64_t *hashes;   /* owned; [count] */
    size_t count, capacity, hash_capacity;
    uint32_t *slots; /* owned; number + 1, 0 is free; a power of two */
    size_t slot_count;
    uint32_t small[BLOCK_DICTIONARY_SMALL]; /* number + 1 of the texts "0" ... "999" */
};

/* Forgets all texts. */
void block_dictionary_clear(struct block_dictionary *texts);
void block_dictionary_release(struct block_dictionary *texts);

/* The number of a text, which stays where it is until block_dictionary_clear(). */
enum error block_dictionary_add(struct block_dictionary *texts, const char *text, size_t length,
                                uint32_t *ret_number) MUST_CHECK;
/* The same for a text that reads `value` < BLOCK_DICTIONARY_SMALL, without a leading zero. */
static inline enum error block_dictionary_add_small(struct block_dictionary *texts, uint32_t value,
                                                    const char *text, size_t length,
                                                    uint32_t *ret_number)
{
    enum error error = OK;
    if (__builtin_expect(texts->small[value] == 0, 0)) {
        error = block_dictionary_add(texts, text, length, ret_number);
        if (!error)
            texts->small[value] = *ret_number + 1;
    } else {
        *ret_number = texts->small[value] - 1;
    }
    return error;
}

#endif
