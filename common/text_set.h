/* SPDX-License-Identifier: MIT */
/*
 * The different texts that were met, numbered in the order in which they came first: labels and
 * groups while they are read. One thread, or any number that only read.
 *
 * A text is compared by its bytes; it may hold any. Copies are NUL-terminated besides and never
 * move.
 */
#ifndef COMMON_TEXT_SET_H
#define COMMON_TEXT_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"
#include "common/text.h"

#define TEXT_SET_LIMIT (UINT32_C(1) << 31) /* different texts */

/* All zeros is empty. */
struct text_set {
    struct text *texts; /* owned list; [count], by number */
    size_t count, capacity;
    uint64_t *hashes; /* owned; [count]: growing the table reads these and not the texts */
    size_t hash_capacity;
    struct text_chunk *chunks; /* owned: the copies; the newest first */
    char *room;                /* in it, for the next copies */
    size_t room_bytes;
    struct hash_table numbers; /* by text */
};

void text_set_release(struct text_set *set);
/* No more texts come: frees what finds them. */
void text_set_finish(struct text_set *set);
/* Forgets all; keeps the lists' and the table's memory. */
void text_set_clear(struct text_set *set);

/* The number of a text, of which a copy is kept when it is new; ret_number may be NULL.
 * ERROR_MEMORY also beyond TEXT_SET_LIMIT. */
enum error text_set_add(struct text_set *set, const char *text, size_t length,
                        uint32_t *ret_number) MUST_CHECK;
/* The same, but the bytes are the caller's, and stay where they are as long as the set is used. */
enum error text_set_borrow(struct text_set *set, const char *text, size_t length,
                           uint32_t *ret_number) MUST_CHECK;

#endif
