/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/csv/csv_keys: The quick way to the keys of CSV rows gives what csv_decode_row()
 * gives, whatever is in the file.
 */
#include "tests/unit/unit.h"

#include "sampler/shuffle/random.h"
#include "tests/fuzz/fuzz_keys.h"

static void check_text(const char *header, char delimiter, const char *text, size_t length)
{
    struct csv_columns columns;
    assert_true(keys_columns(header, delimiter, &columns));
    if (!keys_agree(&columns, delimiter, text, length))
        fail_msg("header %s: the two ways differ in \"%.*s\"", header, (int)length, text);
    csv_columns_release(&columns);
}

static void test_rows_that_are_odd(void **state)
{
    static const char *const texts[] = {
        "1,2\n",
        "1,2\r\n3,4\r\n",
        "1,2",
        "1,2\r",
        "\n1,2\n\n  \n\t\n\r\n3,4\n",
        " 1 , 2 \n",
        "\"1\",\"a\nb\"\n2,x\n",
        "01,02\n007,7\n",
        "9223372036854775807,1\n",
        "9223372036854775808,1\n",
        "999999999999999,1\n9999999999999999,1\n12345678,1\n123456789,999\n1234567890123456,1000\n",
        "-1,1\n",
        "+1,1\n",
        "1\n",
        "1,2,3\n",
        ",\n",
        "1,\n",
        ",1\n",
        "1,a\rb\n",
        "1\r,2\n",
        "1,a b\n2,a  b\n",
        "1,\xc3\xa4\n2,\xff\n",
        "1,a\n2,b\n3,a\n4,0\n5,00\n6,000\n7,12\n8,012\n9,999\n10,1000\n",
        "1,1,0.5,g\n2,2,-1,h\n",
        "1,1,1e3,g\n2,1,.5,g\n3,1,nan,g\n",
        "1,1, 2 ,g\n",
    };
    static const char *const headers[] = {"id,label", "label,id", "a,b", "id,label,weight,group",
                                          "label",    "id,a"};
    (void)state;
    for (size_t h = 0; h < sizeof(headers) / sizeof(headers[0]); h++) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            check_text(headers[h], ',', texts[i], strlen(texts[i]));
    }
    check_text("id,label", ',', "1,a\0b\n2,c\n", 10);
    check_text("label,a", ',', "x,a\rb\ny,c\r\n", 11);
    check_text("id\tlabel", '\t', "1\ta\n\t\n2\tb b\n", 12);
}

/* Rows put together from pieces, most of them sound. */
static void test_rows_at_random(void **state)
{
    static const char *const pieces[] = {"0",
                                         "7",
                                         "42",
                                         "123",
                                         "999",
                                         "1000",
                                         "007",
                                         "12345678",
                                         "cat",
                                         "dog",
                                         "\xc3\xa4",
                                         "0.25",
                                         "1e-3",
                                         "",
                                         " x",
                                         "a b",
                                         "\"q\"",
                                         "-1",
                                         "123456789012345",
                                         "\r"};
    static const char *const headers[] = {"id,label",       "label,id", "id,label,weight,group",
                                          "a,b,label,c,id", "group,a",  "a"};
    enum { TEXTS = 4000, ROWS = 12 };
    uint64_t seed = unit_seed() + 1;
    (void)state;
    for (int t = 0; t < TEXTS; t++) {
        char text[4096];
        size_t length = 0;
        const char *header = headers[(size_t)t % 6];
        size_t fields = csv_count_bytes(header, strlen(header), ',') + 1;
        bool is_odd = t % 3 == 0;
        for (int row = 0; row < ROWS; row++) {
            for (size_t field = 0; field < fields; field++) {
                uint64_t word = random_mix(seed++);
                const char *piece = pieces[word % (is_odd && word % 7 == 0 ? 20 : 8)];
                length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
                                           field ? "," : "", piece);
            }
            text[length++] = '\n';
        }
        check_text(header, ',', text, length);
    }
}

static void test_codes_are_numbers_by_appearance(void **state)
{
    struct csv_columns columns;
    struct keys_result result;
    static const char text[] = "5,b\n3,a\n9,b\n1,007\n2,7\n";
    static const uint32_t codes[] = {0, 1, 0, 2, 3};
    (void)state;
    assert_true(keys_columns("id,label", ',', &columns));
    keys_decode(&result, &columns, ',', text, strlen(text), true);
    assert_ok(result.error);
    assert_int_equal(result.keys.rows, 5);
    assert_memory_equal(result.keys.label_codes, codes, sizeof(codes));
    assert_int_equal(result.keys.labels.set.count, 4);
    assert_int_equal(result.keys.ids[2], 9);
    keys_release(&result);
    csv_columns_release(&columns);
}

static void test_many_texts_in_one_block(void **state)
{
    enum { ROWS = 20000 };
    struct csv_columns columns;
    struct keys_result result;
    char *text = malloc(ROWS * 20);
    size_t length = 0;
    (void)state;
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++)
        length += (size_t)snprintf(text + length, 20, "label%d\n", i % 15000);
    assert_true(keys_columns("label", ',', &columns));
    keys_decode(&result, &columns, ',', text, length, true);
    assert_ok(result.error);
    assert_int_equal(result.keys.labels.set.count, 15000);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(result.keys.label_codes[i], i % 15000);
    keys_release(&result);
    csv_columns_release(&columns);
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rows_that_are_odd),
    cmocka_unit_test(test_rows_at_random),
    cmocka_unit_test(test_codes_are_numbers_by_appearance),
    cmocka_unit_test(test_many_texts_in_one_block),
};

UNIT_MAIN(tests)
