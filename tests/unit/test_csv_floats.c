/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/csv_floats. */
#include "tests/unit/store_unit.h"

#include "loader/csv/csv_bytes.h"
#include "loader/csv/csv_floats.h"
#include "tests/unit/guarded_unit.h"

enum { FIELDS_LIMIT = 60, TEXT_LIMIT = FIELDS_LIMIT * 40, ROUNDS = 20000 / UNIT_LESS };

struct csv_text {
    char bytes[TEXT_LIMIT];
    size_t length;
    double values[FIELDS_LIMIT]; /* as strtod reads them */
};

static double any_value(uint64_t *seed)
{
    double value = (double)(int64_t)dice(seed);
    for (size_t powers = dice_below(seed, 12); powers > 0; powers--)
        value /= 1000;
    return value;
}

/* Numbers as programs print them. */
static void make_text(struct csv_text *text, size_t fields, char delimiter, uint64_t *seed)
{
    static const char *const formats[] = {"%.6f",  "%.2f",  "%.9g",  "%.17g",
                                          "%.18e", "%+.3f", "%.15f", "%.0f"};
    text->length = 0;
    for (size_t i = 0; i < fields; i++) {
        char field[400];
        double value = any_value(seed);
        snprintf(field, sizeof(field), formats[dice_below(seed, 8)], value);
        if (strlen(field) > 30)
            snprintf(field, sizeof(field), "%d", (int)dice_below(seed, 300));
        text->values[i] = strtod(field, NULL);
        text->length += (size_t)sprintf(text->bytes + text->length, "%s%c", field, delimiter);
    }
    text->bytes[text->length++] = '\n';
}

/* What was read, and how far. */
struct outcome {
    size_t fields, bytes;
    bool is_u8;
    float values[FIELDS_LIMIT];
};

typedef size_t decoder(const char **at, size_t count, char delimiter, void *out, bool *is_u8);

/* Between pages that must not be touched: the text's padding ends where the second begins, so do
 * the values, which begin at any byte. */
static void decode(decoder *decode_fields, const struct csv_text *text, size_t fields,
                   char delimiter, struct outcome *ret_outcome)
{
    static char *text_end, *values_end;
    if (!text_end) {
        text_end = guarded_pages();
        values_end = guarded_pages();
    }
    char *copy = text_end - text->length - CSV_BYTES_PADDING;
    char *values = values_end - fields * sizeof(float) - text->length % 2;
    const char *at = copy;
    memcpy(copy, text->bytes, text->length);
    memset(copy + text->length, text->length % 2 ? '1' : delimiter, CSV_BYTES_PADDING);
    memset(ret_outcome, 0, sizeof(*ret_outcome));
    ret_outcome->is_u8 = true;
    ret_outcome->fields = decode_fields(&at, fields, delimiter, values, &ret_outcome->is_u8);
    ret_outcome->bytes = (size_t)(at - copy);
    memcpy(ret_outcome->values, values, ret_outcome->fields * sizeof(float));
}

static void check_same(const struct csv_text *text, size_t fields, char delimiter)
{
    struct outcome plain, chosen;
    decode(csv_floats_plain, text, fields, delimiter, &plain);
    decode(csv_floats_decode, text, fields, delimiter, &chosen);
    assert_memory_equal(&chosen, &plain, sizeof(plain));
}

static void check_values(const struct csv_text *text, size_t fields, const struct outcome *outcome)
{
    bool is_u8 = true;
    assert_int_equal(outcome->fields, fields);
    assert_int_equal(outcome->bytes, text->length - 1);
    for (size_t i = 0; i < fields; i++) {
        float expected = (float)text->values[i];
        assert_memory_equal(&outcome->values[i], &expected, sizeof(expected));
        is_u8 &= text->values[i] >= 0 && text->values[i] <= 255 &&
                 text->values[i] == (double)(int)text->values[i];
    }
    assert_int_equal(outcome->is_u8, is_u8);
}

static void test_numbers_are_read_as_strtod_does(void **state)
{
    static const char delimiters[] = {',', ';', '\t', '|'};
    static struct csv_text text;
    uint64_t seed = unit_seed() + 1;
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct outcome plain, chosen;
        size_t fields = round < ROUNDS / 2 ? dice_below(&seed, 3) : dice_below(&seed, FIELDS_LIMIT);
        char delimiter = delimiters[round % 4];
        make_text(&text, fields, delimiter, &seed);
        decode(csv_floats_plain, &text, fields, delimiter, &plain);
        check_values(&text, fields, &plain);
        decode(csv_floats_decode, &text, fields, delimiter, &chosen);
        check_values(&text, fields, &chosen);
    }
}

/* One field between two others: each ends in front of it, or takes it alike. */
static void test_what_is_no_number_ends_it(void **state)
{
    static const struct {
        const char *field;
        size_t done;
    } cases[] = {
        {"", 1},
        {"-", 1},
        {".", 1},
        {"-.", 1},
        {"1.2.3", 1},
        {"1-2", 1},
        {"--1", 1},
        {"1e", 1},
        {"1e+", 1},
        {"nan", 1},
        {"inf", 1},
        {"0x10", 1},
        {" 1", 1},
        {"1 ", 1},
        {"1e39", 1},
        {"-1e39", 1},
        {"1e400", 1},
        {"\"1\"", 1},
        {"1,", 2},
        {"-0", 3},
        {"+1", 3},
        {".5", 3},
        {"5.", 3},
        {"-.5", 3},
        {"1e-50", 3},
        {"3e38", 3},
        {"00001.0", 3},
        {"255.0", 3},
        {"1E5", 3},
        {"123456789012345", 3},
        {"1234567890123456", 3},
        {"-1234567890.1234", 3},
        {"-0.12345678901234567890123456789", 3},
    };
    static struct csv_text text;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome;
        text.length = (size_t)sprintf(text.bytes, "0.5,%s,7,\n", cases[i].field);
        decode(csv_floats_decode, &text, 3, ',', &outcome);
        assert_int_equal(outcome.fields, cases[i].done);
        check_same(&text, 3, ',');
    }
}

/* What decides whether a row can be kept as bytes. */
static void test_integers_are_told(void **state)
{
    static const struct {
        const char *field;
        bool is_u8;
    } cases[] = {{"0", true},           {"255", true},
                 {"256", false},        {"-1", false},
                 {"-0", true},          {"7.0", true},
                 {"7.5", false},        {"1e2", true},
                 {"255.000", true},     {"0.1", false},
                 {"511", false},        {"65536", false},
                 {"4294967296", false}, {"18446744073709551616", false}};
    static struct csv_text text;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome;
        text.length = (size_t)sprintf(text.bytes, "%s,\n", cases[i].field);
        decode(csv_floats_decode, &text, 1, ',', &outcome);
        assert_int_equal(outcome.fields, 1);
        assert_int_equal(outcome.is_u8, cases[i].is_u8);
        check_same(&text, 1, ',');
    }
}

/* Any byte in any place: both ways must say the same. */
static void test_other_bytes_change_nothing_between_the_ways(void **state)
{
    static struct csv_text text;
    uint64_t seed = unit_seed() + 2;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        size_t fields = 1 + dice_below(&seed, 8);
        make_text(&text, fields, ',', &seed);
        for (size_t changes = dice_below(&seed, 4); changes > 0; changes--)
            text.bytes[dice_below(&seed, text.length)] =
                round % 3 ? (char)dice(&seed) : ",0123456789\r\n -+.e\""[dice_below(&seed, 20)];
        text.bytes[text.length - 1] = '\n';
        check_same(&text, fields, ',');
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_numbers_are_read_as_strtod_does),
    cmocka_unit_test(test_what_is_no_number_ends_it),
    cmocka_unit_test(test_integers_are_told),
    cmocka_unit_test(test_other_bytes_change_nothing_between_the_ways),
};

UNIT_MAIN(tests)
