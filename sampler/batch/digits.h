/* SPDX-License-Identifier: MIT */
/*
 * Converts numbers to decimal text, for responses of a million ids.
 *
 * Integers: eight digits at once in one 64-bit register (each lane is divided by multiplying by a
 * reciprocal, which is exact for its range). Writes up to 8 bytes beyond the returned end.
 *
 * Doubles repeat (one per label): the texts of recent ones are cached.
 */
#ifndef SAMPLER_BATCH_DIGITS_H
#define SAMPLER_BATCH_DIGITS_H

#include <stdint.h>
#include <string.h>

#include "common/text.h"

#define DIGITS_BYTES 19

/* value < 10^8 as eight bytes 0..9, the most significant in the lowest byte. */
static inline uint64_t digits_of_eight(uint32_t value)
{
    uint64_t fours = value / 10000 | (uint64_t)(value % 10000) << 32;
    uint64_t hundreds = fours * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
    uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = twos * 103 >> 10 & UINT64_C(0x000f000f000f000f);
    return tens | (twos - 10 * tens) << 8;
}

static inline char *digits_write_eight(char *out, uint32_t value)
{
    uint64_t text = digits_of_eight(value) | UINT64_C(0x3030303030303030);
    memcpy(out, &text, 8);
    return out + 8;
}

/* value < 10^8 without leading zeros. */
static inline char *digits_write_short(char *out, uint32_t value)
{
    uint64_t digits = digits_of_eight(value);
    int leading = __builtin_ctzll(digits | UINT64_C(1) << 56) / 8;
    uint64_t text = (digits | UINT64_C(0x3030303030303030)) >> 8 * leading;
    memcpy(out, &text, 8);
    return out + 8 - leading;
}

/* value >= 0; at most DIGITS_BYTES. */
static inline __attribute__((always_inline)) char *digits_write(char *out, int64_t value)
{
    uint64_t rest = (uint64_t)value;
    if (__builtin_expect(rest < 100000000, 1))
        return digits_write_short(out, (uint32_t)rest);
    uint64_t high = rest / 100000000;
    if (high < 100000000) {
        out = digits_write_short(out, (uint32_t)high);
    } else {
        out = digits_write_short(out, (uint32_t)(high / 100000000));
        out = digits_write_eight(out, (uint32_t)(high % 100000000));
    }
    return digits_write_eight(out, (uint32_t)(rest % 100000000));
}

/* All zeros is empty. Belongs to one thread. */
#define REAL_CACHE_SLOTS 64
struct real_cache {
    struct {
        uint64_t bits;
        uint8_t length; /* 0: empty */
        char text[TEXT_REAL_BYTES];
    } slots[REAL_CACHE_SLOTS];
};

/* Writes a finite value at `out` (no NUL, at most TEXT_REAL_BYTES - 1 bytes); returns the end. */
static inline char *real_cache_write(struct real_cache *cache, char *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    size_t slot = (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 58);
    if (cache->slots[slot].length == 0 || cache->slots[slot].bits != bits) {
        cache->slots[slot].bits = bits;
        cache->slots[slot].length = (uint8_t)strlen(text_of_real(value, cache->slots[slot].text));
    }
    memcpy(out, cache->slots[slot].text, cache->slots[slot].length);
    return out + cache->slots[slot].length;
}

#endif
