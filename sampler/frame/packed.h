/* SPDX-License-Identifier: MIT */
/*
 * An array of unsigned integers in the narrowest of 1, 2, 4 and 8 bytes that holds them all; or a
 * view of foreign memory, such as a section of a mapped file.
 *
 * Threads: any number of readers, or one writer.
 */
#ifndef SAMPLER_FRAME_PACKED_H
#define SAMPLER_FRAME_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct packed {
    void *data;
    size_t count;   /* elements */
    unsigned width; /* bytes per element: 1, 2, 4, 8 */
    bool is_owned;  /* owns `data`; false: a view */
};

/* Bytes per element for values up to `largest`. */
unsigned packed_width(uint64_t largest);

/* `count` zeroed elements for values up to `largest`. */
enum error packed_init(struct packed *packed, size_t count, uint64_t largest,
                       const char *what) MUST_CHECK;
void packed_release(struct packed *packed);

static inline uint64_t packed_get(const struct packed *packed, size_t index)
{
    switch (packed->width) {
    case 1:
        return ((const uint8_t *)packed->data)[index];
    case 2:
        return ((const uint16_t *)packed->data)[index];
    case 4:
        return ((const uint32_t *)packed->data)[index];
    default:
        return ((const uint64_t *)packed->data)[index];
    }
}

/* `value` must fit the width. */
static inline void packed_set(struct packed *packed, size_t index, uint64_t value)
{
    switch (packed->width) {
    case 1:
        ((uint8_t *)packed->data)[index] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)packed->data)[index] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)packed->data)[index] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)packed->data)[index] = value;
    }
}

#endif
