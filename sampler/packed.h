/*
 * An array of unsigned integers in the narrowest of 1, 2, 4 and 8 bytes that holds them all. Grows
 * by packed_add(), which widens the whole array when a value does not fit; or is a view of memory
 * that somebody else owns (capacity 0), such as a section of a mapped file.
 *
 * Threads: reading from any number, writing from one while nobody reads.
 */
#ifndef SAMPLER_PACKED_H
#define SAMPLER_PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct packed {
    void *data;      /* owned when capacity > 0 */
    size_t count;    /* elements */
    size_t capacity; /* elements */
    unsigned width;  /* bytes an element: 1, 2, 4, 8 */
};

/* Bytes that an element up to `largest` needs. */
unsigned packed_width(uint64_t largest);

/* `count` zeroed elements that hold values up to `largest`. */
enum error packed_init(struct packed *packed, size_t count, uint64_t largest,
                       const char *what) MUST_CHECK;
void packed_release(struct packed *packed);

/* Appends to an array that began as {.width = 1} (or wider). */
enum error packed_add(struct packed *packed, uint64_t value, const char *what) MUST_CHECK;

/* Gives back what growing took too much. Never fails. */
void packed_trim(struct packed *packed);

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

static inline size_t packed_bytes(const struct packed *packed)
{
    return packed->count * packed->width;
}

#endif
