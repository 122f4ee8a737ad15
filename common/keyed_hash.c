/* SPDX-License-Identifier: MIT */
#include "common/keyed_hash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"

struct sip {
    uint64_t v[4];
};

static inline uint64_t rotated(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct sip *sip)
{
    uint64_t *v = sip->v;
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

static inline struct sip sip_begin(const uint64_t key[2])
{
    return (struct sip){
        {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
         key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)}};
}

static inline void sip_word(struct sip *sip, uint64_t word)
{
    sip->v[3] ^= word;
    sip_round(sip);
    sip->v[0] ^= word;
}

/* `last`: the trailing bytes that fill no word, and the length above them. */
static inline uint64_t sip_end(struct sip *sip, uint64_t last)
{
    sip_word(sip, last);
    sip->v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(sip);
    return sip->v[0] ^ sip->v[1] ^ sip->v[2] ^ sip->v[3];
}

uint64_t keyed_hash_under(const uint64_t key[2], const void *bytes, size_t length)
{
    struct sip sip = sip_begin(key);
    const unsigned char *at = bytes;
    const unsigned char *end = at + length / 8 * 8;
    uint64_t last = (uint64_t)length << 56;
    for (; at < end; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        sip_word(&sip, le64toh(word));
    }
    for (size_t i = 0; i < length % 8; i++)
        last |= (uint64_t)at[i] << 8 * i;
    return sip_end(&sip, last);
}

/* ---- the key of this process -------------------------------------------- */

static uint64_t process_key[2];

static void draw_key(void)
{
    if (getrandom(process_key, sizeof(process_key), 0) == (ssize_t)sizeof(process_key))
        return;
    process_key[0] = (uint64_t)clock_now_ns(); /* a kernel without it: as good as there is */
    process_key[1] = (uint64_t)(uintptr_t)&process_key;
}

static const uint64_t *key(void)
{
    static pthread_once_t drawn = PTHREAD_ONCE_INIT;
    pthread_once(&drawn, draw_key);
    return process_key;
}

uint64_t keyed_hash_name(const char *name)
{
    return keyed_hash_under(key(), name, strlen(name));
}

uint64_t keyed_hash_numbers(uint64_t first, uint64_t second)
{
    struct sip sip = sip_begin(key());
    sip_word(&sip, first);
    sip_word(&sip, second);
    return sip_end(&sip, UINT64_C(16) << 56);
}
