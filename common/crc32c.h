/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C (RFC 3720, B.4): finds every error of a burst of up to 32 bits; no defence against
 * forgery. By the processor's instruction where it has one. Any thread.
 */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of (0: nothing) with these bytes behind it. */
uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t length);
/* The same on any processor; what crc32c_add() is compared with. */
uint32_t crc32c_add_plain(uint32_t crc, const void *bytes, size_t length);

#endif
