/* SPDX-License-Identifier: MIT */
/* Covers common/crc32c. */
#include "tests/unit/unit.h"

#include "common/crc32c.h"

static void check(const void *bytes, size_t length, uint32_t expected)
{
    assert_int_equal(crc32c_add(0, bytes, length), expected);
    assert_int_equal(crc32c_add_plain(0, bytes, length), expected);
}

/* The examples of RFC 3720, B.4, and the check value of the catalogue of CRCs. */
static void test_the_known_checksums(void **state)
{
    unsigned char bytes[32];
    (void)state;
    memset(bytes, 0, sizeof(bytes));
    check(bytes, sizeof(bytes), UINT32_C(0x8a9136aa));
    memset(bytes, 0xff, sizeof(bytes));
    check(bytes, sizeof(bytes), UINT32_C(0x62a8ab43));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    check(bytes, sizeof(bytes), UINT32_C(0x46dd794e));
    check("123456789", 9, UINT32_C(0xe3069283));
    check("", 0, 0);
}

/* At any address, of any length, in one piece or two. */
static void test_the_instruction_is_the_plain_sum(void **state)
{
    unsigned char bytes[200];
    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * i + 7 * i);
    for (size_t from = 0; from < 9; from++) {
        for (size_t length = 0; length < sizeof(bytes) - from; length++) {
            uint32_t plain = crc32c_add_plain(0, bytes + from, length);
            uint32_t first = crc32c_add(0, bytes + from, length / 3);
            assert_int_equal(crc32c_add(0, bytes + from, length), plain);
            assert_int_equal(crc32c_add(first, bytes + from + length / 3, length - length / 3),
                             plain);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_known_checksums),
    cmocka_unit_test(test_the_instruction_is_the_plain_sum),
};

UNIT_MAIN(tests)
