/*
 * text_of_real() for very many values.
 */
#ifndef SAMPLER_BATCH_REAL_CACHE_H
#define SAMPLER_BATCH_REAL_CACHE_H

#include <stdint.h>

#include "common/text.h"

/* Values come again and again (one for each label): those that were written last are kept. */
#define REAL_CACHE_SLOTS 64
struct real_cache {
    struct {
        uint64_t bits;
        uint8_t length; /* 0: empty */
        char text[TEXT_REAL_BYTES];
    } slots[REAL_CACHE_SLOTS];
};

/* Writes a finite value at `out` (no NUL, at most TEXT_REAL_BYTES - 1 bytes); returns the end. */
char *real_cache_write(struct real_cache *texts, char *out, double value);

#endif
