/* SPDX-License-Identifier: MIT */
/* The type of a store's features: one for all rows and columns. */
#ifndef LOADER_STORE_ELEMENT_H
#define LOADER_STORE_ELEMENT_H

#include <stddef.h>

enum element { ELEMENT_U8, ELEMENT_F32 };

/* 1 or 4. */
static inline size_t element_bytes(enum element element)
{
    return element == ELEMENT_U8 ? 1 : 4;
}

#endif
