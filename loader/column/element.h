/* SPDX-License-Identifier: MIT */
/*
 * The type of a store's features, the same for all rows and columns; the one list of types. A store
 * of numbers is u8 or f32 depending on its values, and i32 if its URI says `element=i32`; for
 * values that are bytes, `element=` says what they hold.
 */
#ifndef LOADER_COLUMN_ELEMENT_H
#define LOADER_COLUMN_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/uri.h"

/* The values are also those in row files and tombola.h. */
enum element { ELEMENT_U8, ELEMENT_F32, ELEMENT_I32 };
#define ELEMENTS 3

extern const char *const element_names[ELEMENTS];  /* "u8", "f32", "i32" */
extern const char *const element_things[ELEMENTS]; /* "bytes", "32-bit floats", ... */

/* 1 or 4. */
static inline size_t element_bytes(enum element element)
{
    return element == ELEMENT_U8 ? 1 : 4;
}

/* False: no such name. */
bool element_find(const char *name, enum element *ret_element);

/* `element=` of a URI. Zeroed: not given. */
struct element_choice {
    bool told;
    enum element element;
};

/* ERROR_USAGE: not a name of one. */
enum error element_choice_read(struct element_choice *choice, struct uri *uri) MUST_CHECK;
/* ERROR_USAGE: it is given, but numbers in columns cannot be that: they are u8 or f32 depending on
 * their values, or 32-bit integers on request. `where`: "table t", for the message. */
enum error element_choice_check_numbers(const struct element_choice *choice,
                                        const char *where) MUST_CHECK;

#endif
