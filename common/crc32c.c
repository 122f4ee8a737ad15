/* SPDX-License-Identifier: MIT */
#include "common/crc32c.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

/* Remainders of four bits shifted out, by Castagnoli's polynomial 0x82f63b78 (reflected). */
static const uint32_t remainders[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c_add_plain(uint32_t crc, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t
add_by_instruction(uint32_t crc, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint64_t sum = ~crc;
    for (; length >= sizeof(uint64_t); at += sizeof(uint64_t), length -= sizeof(uint64_t)) {
        uint64_t eight;
        memcpy(&eight, at, sizeof(eight));
        sum = _mm_crc32_u64(sum, eight);
    }
    crc = (uint32_t)sum;
    for (; length > 0; at++, length--)
        crc = _mm_crc32_u8(crc, *at);
    return ~crc;
}

static int has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#elif defined(__aarch64__) && defined(__linux__)

#define HAS_CRC32 (1ul << 7) /* HWCAP_CRC32 of the kernel */

__attribute__((target("+crc"))) static uint32_t add_by_instruction(uint32_t crc, const void *bytes,
                                                                   size_t length)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; length >= sizeof(uint64_t); at += sizeof(uint64_t), length -= sizeof(uint64_t)) {
        uint64_t eight;
        memcpy(&eight, at, sizeof(eight));
        crc = __crc32cd(crc, eight);
    }
    for (; length > 0; at++, length--)
        crc = __crc32cb(crc, *at);
    return ~crc;
}

static int has_instruction(void)
{
    return (getauxval(AT_HWCAP) & HAS_CRC32) != 0;
}

#else

#define add_by_instruction crc32c_add_plain

static int has_instruction(void)
{
    return 0;
}

#endif

uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t length)
{
    return has_instruction() ? add_by_instruction(crc, bytes, length)
                             : crc32c_add_plain(crc, bytes, length);
}
