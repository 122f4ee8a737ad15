/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C (RFC 3720, B.4): detects every error burst of up to 32 bits; no protection against
 * forgery. Uses the processor's instruction if it has one. Any thread.
 */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extends checksum `crc` (0: of nothing) by these bytes. */
uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t length);
/* The same without special instructions; the reference for crc32c_add(). */
uint32_t crc32c_add_plain(uint32_t crc, const void *bytes, size_t length);

#endif
