/* SPDX-License-Identifier: MIT */
/* Bytes as text that a URL can hold: RFC 4648, section 5, without padding. Any thread. */
#ifndef SAMPLER_STREAM_BASE64URL_H
#define SAMPLER_STREAM_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Four characters for three bytes, rounded up, and a NUL. */
void base64url_encode(const uint8_t *bytes, size_t length, char *out);
/* Decodes to at most `length` bytes; false: not the canonical encoding of any bytes. */
bool base64url_decode(const char *text, size_t length, uint8_t *out, size_t *ret_length);

#endif
