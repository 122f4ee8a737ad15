/* SPDX-License-Identifier: MIT */
/* Covers trainer/events/record. */
#include "tests/unit/unit.h"

#include "common/crc32c.h"
#include "trainer/events/record.h"

static void add(struct buffer *out, const char *bytes, size_t length)
{
    uint8_t *place = record_begin(out, length);
    assert_non_null(place);
    memcpy(place, bytes, length);
    record_end(out, length);
}

static uint32_t read_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t unmask(uint32_t masked)
{
    uint32_t rotated = masked - UINT32_C(0xa282ead8);
    return (rotated >> 17) | (rotated << 15);
}

static void test_records_follow_each_other(void **state)
{
    static const char head[] = "\x09\0\0\0\0\0\0\0";
    struct buffer out = BUFFER_INIT(1 << 10);
    (void)state;
    add(&out, "", 0);
    add(&out, "123456789", 9);
    assert_int_equal(out.length, 16 + 25);
    assert_memory_equal(out.data + 16, head, 8);
    assert_int_equal(unmask(read_u32(out.data + 24)), crc32c_add(0, head, 8));
    assert_memory_equal(out.data + 28, "123456789", 9);
    assert_int_equal(unmask(read_u32(out.data + 37)), UINT32_C(0xe3069283));
    buffer_release(&out);
}

static void test_no_room_adds_nothing(void **state)
{
    struct buffer out = BUFFER_INIT(40);
    (void)state;
    add(&out, "12345678", 8);
    assert_null(record_begin(&out, 1));
    assert_int_equal(out.length, 24);
    assert_int_equal(out.error, ERROR_MEMORY);
    buffer_release(&out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_records_follow_each_other),
    cmocka_unit_test(test_no_room_adds_nothing),
};

UNIT_MAIN(tests)
