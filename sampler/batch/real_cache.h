/*
 * text_of_real() for very many values.
 */
#ifndef SAMPLER_BATCH_REAL_CACHE_H
#define SAMPLER_BATCH_REAL_CACHE_H

#include <stdint.h>

#include "common/text.h"

/* Values come again and again (one for each label): those that were written last are kept. */
#define REAL_TEXT_SLOTS 64
struct real_texts {
    struct {
        uint64_t bits;
        uint8_t length; /* 0: empty */
        char text[TEXT_REAL_BYTES];
    } slots[REAL_TEXT_SLOTS];
};

/* Writes a finite value at `out` (no NUL, at most TEXT_REAL_BYTES - 1 bytes); returns the end. */
char *real_text_write(struct real_texts *texts, char *out, double value);

#endif
