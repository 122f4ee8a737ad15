/* SPDX-License-Identifier: MIT */
/*
 * Distinct texts, numbered in order of their first occurrence: labels and groups while they are
 * read. One thread, or any number of readers.
 *
 * Texts are compared by their bytes, which are arbitrary. Copies are NUL-terminated as well and
 * never move.
 */
#ifndef COMMON_TEXT_SET_H
#define COMMON_TEXT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"
#include "common/text.h"

#define TEXT_SET_LIMIT (UINT32_C(1) << 31) /* distinct texts */

/* Empty when zeroed. */
struct text_set {
    struct text *texts; /* owned list; [count], by number */
    size_t count, capacity;
    uint64_t *hashes; /* owned; [count]: lets the table grow without reading the texts */
    size_t hash_capacity;
    struct text_chunk *chunks; /* owned copies, newest first */
    char *room;                /* in the newest chunk, for further copies */
    size_t room_bytes;
    struct hash_table numbers; /* by text */
};

void text_set_release(struct text_set *set);
/* Call when no more texts will come: frees the search structures. */
void text_set_finish(struct text_set *set);
/* Empties the set; keeps the memory of lists and table. */
void text_set_clear(struct text_set *set);

/* Returns the number of a text and copies it if it is new; ret_number may be NULL. ERROR_MEMORY
 * also beyond TEXT_SET_LIMIT. */
enum error text_set_add(struct text_set *set, const char *text, size_t length,
                        uint32_t *ret_number) MUST_CHECK;
/* The same without a copy: the caller's bytes must stay in place as long as the set is used. */
enum error text_set_borrow(struct text_set *set, const char *text, size_t length,
                           uint32_t *ret_number) MUST_CHECK;

#endif
