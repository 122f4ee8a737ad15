/* SPDX-License-Identifier: MIT */
/* Covers sampler/stream/base64url. */
#include "tests/unit/unit.h"

#include "sampler/stream/base64url.h"

static void check(const char *bytes, const char *text)
{
    char encoded[16];
    uint8_t decoded[16];
    size_t length;
    base64url_encode((const uint8_t *)bytes, strlen(bytes), encoded);
    assert_string_equal(encoded, text);
    assert_true(base64url_decode(text, strlen(text), decoded, &length));
    assert_int_equal(length, strlen(bytes));
    assert_memory_equal(decoded, bytes, length);
}

/* RFC 4648, section 10, without padding; and the letters that differ from base64. */
static void test_vectors(void **state)
{
    (void)state;
    check("", "");
    check("f", "Zg");
    check("fo", "Zm8");
    check("foo", "Zm9v");
    check("foob", "Zm9vYg");
    check("fooba", "Zm9vYmE");
    check("foobar", "Zm9vYmFy");
    check("\xfb\xff\xbf", "-_-_");
}

/* What a text stands for has no other one. */
static void test_one_spelling(void **state)
{
    static const char *const wrong[] = {"Zh", "Zm9",   "Zm9vYh", "Z",    "Zm9vY",  "Zg==", "Zm8=",
                                        "A",  "Zm9vA", "Zm+v",   "Zm/v", "Zm9v\n", " Zm9v"};
    uint8_t decoded[16];
    size_t length;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (base64url_decode(wrong[i], strlen(wrong[i]), decoded, &length))
            fail_msg("\"%s\" was taken", wrong[i]);
    assert_false(base64url_decode("Zm\0v", 4, decoded, &length));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_vectors),
    cmocka_unit_test(test_one_spelling),
};

UNIT_MAIN(tests)
