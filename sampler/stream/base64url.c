/* SPDX-License-Identifier: MIT */
#include "sampler/stream/base64url.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_encode(const uint8_t *bytes, size_t length, char *out)
{
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < length; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            *out++ = alphabet[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *out++ = alphabet[bits << (6 - count) & 63];
    *out = '\0';
}

/* Indexed by letter; -1: not in the alphabet. */
static void list_values(int values[256])
{
    memset(values, -1, 256 * sizeof(*values));
    for (int i = 0; i < 64; i++)
        values[(uint8_t)alphabet[i]] = i;
}

/* Left-over bits must be zeros, so that a token has one spelling. */
bool base64url_decode(const char *text, size_t length, uint8_t *out, size_t *ret_length)
{
    int values[256];
    uint32_t bits = 0;
    unsigned count = 0;
    uint8_t *at = out;
    list_values(values);
    for (size_t i = 0; i < length; i++) {
        int value = values[(uint8_t)text[i]];
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            *at++ = (uint8_t)(bits >> count);
        }
    }
    *ret_length = (size_t)(at - out);
    return count < 6 && (bits & ((1u << count) - 1)) == 0;
}
