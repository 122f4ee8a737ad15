/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/wire. */
#include "tests/unit/unit.h"

#include "trainer/wire/wire.h"

static struct wire_header sealed(enum wire_type type, uint64_t bytes)
{
    struct wire_header header = {.type = (uint16_t)type, .bytes = bytes, .batch = 4711};
    wire_header_seal(&header);
    return header;
}

static void test_a_sealed_header_is_right(void **state)
{
    (void)state;
    for (int type = WIRE_HELLO; type < WIRE_TYPES; type++) {
        struct wire_header header = sealed((enum wire_type)type, 1000);
        assert_ok(wire_header_check(&header, 1000));
        assert_fails(wire_header_check(&header, 999), ERROR_INPUT, "bytes, more than 999");
        assert_true(strlen(wire_type_name((enum wire_type)type)) >= 2);
    }
}

static void test_any_changed_bit_is_noticed(void **state)
{
    (void)state;
    struct wire_header right = sealed(WIRE_PUSH, 77);
    for (size_t bit = 0; bit < 8 * sizeof(right); bit++) {
        struct wire_header wrong = right;
        ((unsigned char *)&wrong)[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(wire_header_check(&wrong, UINT64_MAX), ERROR_INPUT);
    }
}

static void test_unknown_types_are_refused(void **state)
{
    (void)state;
    struct wire_header none = sealed((enum wire_type)0, 0);
    struct wire_header beyond = sealed((enum wire_type)WIRE_TYPES, 0);
    assert_fails(wire_header_check(&none, 0), ERROR_INPUT, "unknown type 0");
    assert_fails(wire_header_check(&beyond, 0), ERROR_INPUT, "unknown type");
}

static void test_ranges_ascend(void **state)
{
    (void)state;
    static const struct index_range right[] = {{0, 2}, {2, 3}, {7, 9}};
    static const struct index_range wrong[][2] = {
        {{0, 2}, {1, 3}}, {{-1, 2}, {3, 4}}, {{3, 3}, {4, 5}}, {{5, 4}, {6, 7}}};
    struct index_set set = {.count = 0};
    char unaligned[sizeof(right) + 1];
    memcpy(unaligned + 1, right, sizeof(right));
    assert_ok(wire_ranges_read(unaligned + 1, 3, &set));
    assert_int_equal(set.count, 2); /* the first two touch */
    assert_int_equal(index_set_size(&set), 5);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_fails(wire_ranges_read(wrong[i], 2, &set), ERROR_INPUT, "does not ascend");
    index_set_release(&set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_sealed_header_is_right),
    cmocka_unit_test(test_any_changed_bit_is_noticed),
    cmocka_unit_test(test_unknown_types_are_refused),
    cmocka_unit_test(test_ranges_ascend),
};

UNIT_MAIN(tests)
