/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/csv_bytes. */
#include "tests/unit/store_unit.h"

#include "loader/csv/csv_bytes.h"
#include "tests/unit/guarded_unit.h"

enum { FIELDS_LIMIT = 400, TEXT_LIMIT = FIELDS_LIMIT * 6 };

struct csv_text {
    char bytes[TEXT_LIMIT];
    size_t length;
    uint8_t values[FIELDS_LIMIT];
};

/* Fields as files have them: mostly zeros, or of all lengths, with zeros in front now and then. */
static void make_text(struct csv_text *text, size_t fields, char delimiter, bool sparse,
                      uint64_t *seed)
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

/* The oracle first, then what csv_bytes_decode() chooses, then each way by itself. */
enum { WAY_PLAIN, WAY_CHOSEN, WAYS };

static bool has_way(size_t way)
{
    return way < WAYS || csv_bytes_ways[way - WAYS];
}

static size_t decode_by(size_t way, const char **at, size_t fields, char delimiter, uint8_t *out)
{
    if (way == WAY_PLAIN)
        return csv_bytes_plain(at, fields, delimiter, out);
    if (way == WAY_CHOSEN || !csv_bytes_ways[way - WAYS]->is_supported())
        return csv_bytes_decode(at, fields, delimiter, out);
    return csv_bytes_decode_by(csv_bytes_ways[way - WAYS], at, fields, delimiter, out);
}

/* How far a text was read. */
struct reach {
    size_t fields, bytes;
};

/* Between pages that must not be touched: the text's padding ends where the second begins, so do
 * the values. */
static struct reach decode(const struct csv_text *text, size_t fields, char delimiter, uint8_t *out,
                           size_t way)
{
    static char *text_end, *values_end;
    if (!text_end) {
        text_end = guarded_pages();
        values_end = guarded_pages();
    }
    char *copy = text_end - text->length - CSV_BYTES_PADDING;
    uint8_t *values = (uint8_t *)values_end - fields;
    const char *at = copy;
    memcpy(copy, text->bytes, text->length);
    memset(copy + text->length, text->length % 2 ? '1' : ',', CSV_BYTES_PADDING);
    struct reach reach = {.fields = decode_by(way, &at, fields, delimiter, values)};
    reach.bytes = (size_t)(at - copy);
    memcpy(out, values, reach.fields);
    return reach;
}

static void check_same(const struct csv_text *text, size_t fields, char delimiter)
{
    uint8_t own[FIELDS_LIMIT];
    uint8_t oracle[FIELDS_LIMIT];
    struct reach expected = decode(text, fields, delimiter, oracle, WAY_PLAIN);
    for (size_t way = WAY_CHOSEN; has_way(way); way++) {
        struct reach reach = decode(text, fields, delimiter, own, way);
        assert_memory_equal(&reach, &expected, sizeof(reach));
        assert_memory_equal(own, oracle, reach.fields);
    }
}

static void test_fields_are_read(void **state)
{
    static const char delimiters[] = {',', ';', '\t', '|'};
    static struct csv_text text;
    uint64_t seed = unit_seed() + 1;
    (void)state;
    for (size_t fields = 0; fields < FIELDS_LIMIT; fields++) {
        uint8_t out[FIELDS_LIMIT];
        char delimiter = delimiters[fields % 4];
        make_text(&text, fields, delimiter, fields % 2, &seed);
        for (size_t way = 0; has_way(way); way++) {
            struct reach reach = decode(&text, fields, delimiter, out, way);
            assert_int_equal(reach.fields, fields);
            assert_int_equal(reach.bytes, text.length - 1);
            assert_memory_equal(out, text.values, fields);
        }
        for (size_t fewer = fields > 3 ? fields - 3 : 0; fewer < fields; fewer++)
            check_same(&text, fewer, delimiter);
    }
}

static void test_every_value_is_judged(void **state)
{
    static struct csv_text text;
    (void)state;
    for (unsigned value = 0; value < 3000; value++) {
        for (size_t before = 0; before < 70; before += 3) {
            uint8_t out[80];
            text.length = 0;
            for (size_t i = 0; i < before; i++)
                text.length += (size_t)sprintf(text.bytes + text.length, "%zu,", i % 3 ? i : 0);
            size_t in_front = text.length;
            text.length += (size_t)sprintf(text.bytes + text.length, "%u,7,\n", value);
            for (size_t way = 0; has_way(way); way++) {
                struct reach reach = decode(&text, before + 2, ',', out, way);
                assert_int_equal(reach.fields, value < 256 ? before + 2 : before);
                assert_int_equal(reach.bytes, value < 256 ? text.length - 1 : in_front);
                if (value < 256)
                    assert_int_equal(out[before], value);
            }
        }
    }
}

/* Any byte in any place: both ways must say the same. */
static void test_other_bytes_end_it(void **state)
{
    static struct csv_text text;
    uint64_t seed = unit_seed() + 2;
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
