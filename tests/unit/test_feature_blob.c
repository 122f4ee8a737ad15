/* SPDX-License-Identifier: MIT */
/* Covers loader/column/feature_blob. */
#include "tests/unit/store_unit.h"

#include <float.h>
#include <math.h>

#include "loader/column/feature_blob.h"

enum { FEATURES = 70 };

/* At an odd address, as values of databases may lie. */
static uint8_t memory[FEATURES * sizeof(float) + 1];

static void put(size_t feature, float value)
{
    memcpy(memory + 1 + feature * sizeof(value), &value, sizeof(value));
}

static void test_the_first_float_that_is_not_finite_is_found(void **state)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t features = 0; features <= FEATURES; features++) {
        for (size_t i = 0; i < FEATURES; i++)
            put(i, i % 3 ? (float)i * FLT_MIN / 8 : i % 2 ? FLT_MAX : -FLT_MAX);
        assert_int_equal(feature_not_finite(memory + 1, features), features);
        for (size_t i = FEATURES; i-- > 0;) {
            put(i, bad[i % 4]);
            assert_int_equal(feature_not_finite(memory + 1, features), i < features ? i : features);
        }
    }
}

static void check(const void *bytes, size_t length, size_t features, enum element element,
                  const char *wanted)
{
    uint8_t out[sizeof(memory)];
    char says[FEATURE_BLOB_TEXT_BYTES] = "";
    memset(out, 0x5a, sizeof(out));
    bool taken = feature_blob_copy(bytes, length, features, element, out, "BLOB", says);
    assert_int_equal(taken, wanted == NULL);
    assert_string_equal(says, wanted ? wanted : "");
    size_t copied = taken && bytes ? length : 0;
    if (copied > 0)
        assert_memory_equal(out, bytes, copied);
    assert_int_equal(out[copied], 0x5a);
}

static void test_what_fits_is_copied(void **state)
{
    (void)state;
    for (size_t i = 0; i < FEATURES; i++)
        put(i, (float)i);
    check(memory, 7, 7, ELEMENT_U8, NULL);
    check(memory + 1, 28, 7, ELEMENT_F32, NULL);
    check(memory, 0, 0, ELEMENT_F32, NULL);
    check(NULL, 0, 0, ELEMENT_U8, NULL);
    check(NULL, 7, 7, ELEMENT_U8, NULL); /* the database has no memory for it, and says so itself */
}

static void test_what_does_not_is_refused(void **state)
{
    (void)state;
    put(3, NAN);
    check(memory, 6, 7, ELEMENT_U8, "a BLOB of 7 bytes");
    check(memory, 8, 7, ELEMENT_U8, "a BLOB of 7 bytes");
    check(memory, 2, 1, ELEMENT_U8, "a BLOB of 1 byte");
    check(memory + 1, 7, 7, ELEMENT_F32, "a BLOB of 28 bytes");
    check(memory, FEATURE_BLOB_NONE, 0, ELEMENT_U8, "a BLOB of 0 bytes");
    check(memory + 1, 28, 7, ELEMENT_F32, "a finite number (element 3 is not)");
    check(memory + 1, 12, 3, ELEMENT_F32, NULL);
    check(memory + 1, 28, 7, ELEMENT_I32, NULL); /* any bits are an integer */
    check(memory + 1, 27, 7, ELEMENT_I32, "a BLOB of 28 bytes");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_first_float_that_is_not_finite_is_found),
    cmocka_unit_test(test_what_fits_is_copied),
    cmocka_unit_test(test_what_does_not_is_refused),
};

UNIT_MAIN(tests)
