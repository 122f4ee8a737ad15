#include "tests/unit/store_unit.h"

#include "loader/csv_bytes.h"

enum { FIELDS_LIMIT = 400, TEXT_LIMIT = FIELDS_LIMIT * 6 };

struct text {
    char bytes[TEXT_LIMIT];
    size_t length;
    uint8_t values[FIELDS_LIMIT];
};

/* Fields as files have them: mostly zeros, or of all lengths, with zeros in front now and then. */
static void make_text(struct text *text, size_t fields, char delimiter, bool sparse, uint64_t *seed)
{
    text->length = 0;
    for (size_t i = 0; i < fields; i++) {
        unsigned value = sparse && dice_below(seed, 5) > 0 ? 0 : (unsigned)dice_below(seed, 256);
        const char *format = dice_below(seed, 40) == 0 ? "%03u%c" : "%u%c";
        text->values[i] = (uint8_t)value;
        text->length += (size_t)sprintf(text->bytes + text->length, format, value, delimiter);
    }
    text->bytes[text->length++] = '\n';
}

/* From memory that ends where the promise ends. Returns how far the text was read; -1: NULL. */
static ptrdiff_t decode(const struct text *text, size_t fields, char delimiter, uint8_t *out,
                        const char *(*way)(const char *, const char *, size_t, char, uint8_t *))
{
    char *copy = calloc(1, text->length + CSV_BYTES_PADDING);
    uint8_t *values = calloc(1, fields + CSV_BYTES_PADDING);
    memcpy(copy, text->bytes, text->length);
    const char *end = way(copy, copy + text->length, fields, delimiter, values);
    ptrdiff_t length = end ? end - copy : -1;
    memcpy(out, values, fields);
    free(values);
    free(copy);
    return length;
}

static void check_same(const struct text *text, size_t fields, char delimiter)
{
    uint8_t own[FIELDS_LIMIT];
    uint8_t oracle[FIELDS_LIMIT];
    ptrdiff_t length = decode(text, fields, delimiter, own, csv_bytes_decode);
    assert_int_equal(length, decode(text, fields, delimiter, oracle, csv_bytes_plain));
    if (length >= 0)
        assert_memory_equal(own, oracle, fields);
}

static void test_fields_are_read(void **state)
{
    static const char delimiters[] = {',', ';', '\t', '|'};
    static struct text text;
    uint64_t seed = 1;
    (void)state;
    for (size_t fields = 0; fields < FIELDS_LIMIT; fields++) {
        uint8_t out[FIELDS_LIMIT];
        char delimiter = delimiters[fields % 4];
        make_text(&text, fields, delimiter, fields % 2, &seed);
        assert_int_equal(decode(&text, fields, delimiter, out, csv_bytes_decode), text.length - 1);
        assert_memory_equal(out, text.values, fields);
        for (size_t fewer = fields > 3 ? fields - 3 : 0; fewer < fields; fewer++)
            check_same(&text, fewer, delimiter);
    }
}

static void test_every_value_is_judged(void **state)
{
    static struct text text;
    (void)state;
    for (unsigned value = 0; value < 3000; value++) {
        for (size_t before = 0; before < 70; before += 3) {
            uint8_t out[80];
            text.length = 0;
            for (size_t i = 0; i < before; i++)
                text.length += (size_t)sprintf(text.bytes + text.length, "%zu,", i % 3 ? i : 0);
            text.length += (size_t)sprintf(text.bytes + text.length, "%u,7,\n", value);
            ptrdiff_t end = decode(&text, before + 2, ',', out, csv_bytes_decode);
            assert_int_equal(end, value < 256 ? (ptrdiff_t)text.length - 1 : -1);
            if (value < 256)
                assert_int_equal(out[before], value);
        }
    }
}

/* Any byte in any place: both ways must say the same. */
static void test_other_bytes_end_it(void **state)
{
    static struct text text;
    uint64_t seed = 2;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t fields = 1 + dice_below(&seed, 90);
        make_text(&text, fields, ',', round % 2, &seed);
        for (size_t changes = dice_below(&seed, 3); changes > 0; changes--)
            text.bytes[dice_below(&seed, text.length)] =
                round % 3 ? (char)dice(&seed) : ",0123456789\r\n -+.e\""[dice_below(&seed, 20)];
        text.bytes[text.length - 1] = '\n';
        check_same(&text, fields, ',');
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_fields_are_read),
    cmocka_unit_test(test_every_value_is_judged),
    cmocka_unit_test(test_other_bytes_end_it),
};

UNIT_MAIN(tests)
