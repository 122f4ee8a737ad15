/* SPDX-License-Identifier: MIT */
/*
 * Covers common/keyed_hash: SipHash-1-3 as CPython computes it (PYTHONHASHSEED=0: a key of zeros),
 * and that what collides under a hash without a secret does not under this one.
 */
#include "tests/unit/unit.h"

#include "common/keyed_hash.h"

static void check(const void *bytes, size_t length, uint64_t hash)
{
    static const uint64_t zeros[2];
    assert_true(keyed_hash_under(zeros, bytes, length) == hash);
}

static void test_known_values(void **state)
{
    unsigned char counted[64];
    (void)state;
    for (size_t i = 0; i < sizeof(counted); i++)
        counted[i] = (unsigned char)i;
    check("a", 1, UINT64_C(0x407448d2b89b1813));
    check("0123456", 7, UINT64_C(0x810aaf7acf670379));
    check("01234567", 8, UINT64_C(0xda3dcedf84ea6cc6));
    check(counted, 15, UINT64_C(0xf30eb725bb91c9ea));
    check(counted, 64, UINT64_C(0x75e05fd5bbc870c6));
}

static void test_the_key_matters(void **state)
{
    static const uint64_t zeros[2], first[2] = {1, 0}, second[2] = {0, 1};
    (void)state;
    uint64_t hash = keyed_hash_under(zeros, "name", 4);
    assert_true(hash != keyed_hash_under(first, "name", 4));
    assert_true(hash != keyed_hash_under(second, "name", 4));
    assert_true(hash != keyed_hash_name("name")); /* the process drew another one */
    assert_true(keyed_hash_name("name") == keyed_hash_name("name"));
}

static void test_numbers_are_their_bytes(void **state)
{
    static const char text[] = "01234567abcdefgh";
    uint64_t numbers[2];
    (void)state;
    memcpy(numbers, text, sizeof(numbers));
    assert_true(keyed_hash_numbers(numbers[0], numbers[1]) == keyed_hash_name(text));
    assert_true(keyed_hash_numbers(1, 2) != keyed_hash_numbers(2, 1));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_known_values),
    cmocka_unit_test(test_the_key_matters),
    cmocka_unit_test(test_numbers_are_their_bytes),
};

UNIT_MAIN(tests)
