/* SPDX-License-Identifier: MIT */
/*
 * The distinct texts of a column (labels, groups), numbered 0..count-1: as ascending integers if
 * every text is a canonical integer (-?[1-9][0-9]* or 0, within int64), else ascending by bytes.
 * Immutable; shared by all threads.
 *
 * A struct text_set numbers texts in order of appearance; dictionary_build() sorts them and returns
 * their new numbers.
 */
#ifndef SAMPLER_FRAME_DICTIONARY_H
#define SAMPLER_FRAME_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text_set.h"
#include "sampler/frame/packed.h"

#define DICTIONARY_LIMIT (UINT32_C(1) << 24) /* distinct texts */
#define DICTIONARY_TEXT_LIMIT 1024           /* bytes of one text */

struct dictionary {
    uint32_t count;
    bool are_integers;
    char *texts;           /* NUL-terminated, concatenated */
    size_t text_bytes;     /* of all */
    struct packed offsets; /* [count + 1] into texts; the last is text_bytes */
    bool is_borrowed;      /* texts and offsets belong to a mapped file */
};

void dictionary_release(struct dictionary *dictionary);

/* NUL-terminated; borrowed until dictionary_release(). */
static inline const char *dictionary_text(const struct dictionary *dictionary, uint32_t number)
{
    return dictionary->texts + packed_get(&dictionary->offsets, number);
}

/* Validates a dictionary read from a file: texts concatenated, each UTF-8, NUL-terminated and of 1
 * to DICTIONARY_TEXT_LIMIT bytes; canonical integers if it says so; ascending. `offsets` has count
 * + 1 elements, `texts` text_bytes bytes. */
bool dictionary_is_sound(const struct dictionary *dictionary);

/* The text's value if are_integers, else 0. */
int64_t dictionary_integer(const struct dictionary *dictionary, uint32_t number);

/* The texts of the integers 0 .. count-1 (a range: store's labels). count <= DICTIONARY_LIMIT. */
enum error dictionary_of_range(uint32_t count, struct dictionary *ret_dictionary) MUST_CHECK;

/* The number of `text`, or -1. O(log count). */
int64_t dictionary_find(const struct dictionary *dictionary, const char *text, size_t length);

/* The number of `text` in order of first appearance; `what` names the column in messages ("label").
 * ERROR_INPUT if it is empty, longer than DICTIONARY_TEXT_LIMIT or not UTF-8, or if there are more
 * than DICTIONARY_LIMIT; the caller adds the location, and stops using `found`. */
enum error dictionary_add(struct text_set *found, const char *what, const char *text, size_t length,
                          uint32_t *ret_number) MUST_CHECK;

/* The sorted texts; ret_ranks[number by appearance] is the sorted number; the caller frees it. */
enum error dictionary_build(const struct text_set *found, struct dictionary *ret_dictionary,
                            uint32_t **ret_ranks) MUST_CHECK;

#endif
