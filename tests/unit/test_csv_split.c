/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/csv_split. */
#include "tests/unit/store_unit.h"

#include "loader/csv/csv_split.h"

static struct csv_splitter splitter;

static void split(char delimiter, const char *text, enum error expected)
{
    static char record[4096];
    size_t length = strlen(text);
    memcpy(record, text, length + 1);
    assert_ok(csv_splitter_init(&splitter, delimiter, 64));
    assert_int_equal(csv_split(&splitter, record, length), expected);
}

/* The fields of `text` are those of `expected`, which has them between '|'. */
static void check_fields(char delimiter, const char *text, const char *expected)
{
    char joined[4096] = "";
    split(delimiter, text, OK);
    for (size_t i = 0; i < splitter.count; i++) {
        strcat(joined, i ? "|" : "");
        strncat(joined, splitter.fields[i].data, splitter.fields[i].length);
    }
    assert_string_equal(joined, expected);
    csv_splitter_release(&splitter);
}

static void check_refused(const char *text, const char *says)
{
    split(',', text, ERROR_INPUT);
    if (!strstr(error_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", error_message(), says);
    csv_splitter_release(&splitter);
}

static void test_unquoted_fields(void **state)
{
    (void)state;
    check_fields(',', "1,2,3\n", "1|2|3");
    check_fields(',', "1,2,3\r\n", "1|2|3");
    check_fields(',', "1\n", "1");
    check_fields(',', ",\n", "|");
    check_fields(',', ",,\r\n", "||");
    check_fields(',', " 1 ,\t2\t, 3\n", "1|2|3");
    check_fields(',', "a b,c\td\n", "a b|c\td");
    check_fields('\t', "1\t 2\t3\n", "1|2|3");
    check_fields('\t', "1\t\t3\n", "1||3");
    check_fields(';', "1,5;2\n", "1,5|2");
}

static void test_quoted_fields(void **state)
{
    (void)state;
    check_fields(',', "\"a\",b\n", "a|b");
    check_fields(',', "\"a,b\",c\n", "a,b|c");
    check_fields(',', "\"say \"\"hi\"\"\",c\n", "say \"hi\"|c");
    check_fields(',', "\"two\nlines\",c\r\n", "two\nlines|c");
    check_fields(',', "\"two\r\nlines\",\"c\"\r\n", "two\r\nlines|c");
    check_fields(',', "\"\",\"\"\n", "|");
    check_fields(',', " \" a \" , b \n", " a |b");
    check_fields(',', "x, \"\"\"\" ,y\n", "x|\"|y");
    check_fields('\t', "\"a\tb\"\tc\n", "a\tb|c");
}

static void test_broken_quotes_are_refused(void **state)
{
    (void)state;
    check_refused("a,b\"c,d\n", "field 2 has a quote");
    check_refused("\"a\"b,c\n", "field 1 has a quote");
    check_refused("\"a\" b\",c\n", "field 1 has a quote");
    check_refused("x,\"never closed\n", "quotes of field 2 are never closed");
}

static void test_lone_carriage_returns_are_refused(void **state)
{
    (void)state;
    check_refused("1,2\r3,4\n", "carriage return");
    check_refused("1\r,2\n", "carriage return");
    check_refused("1,2\r\r\n", "carriage return");
    check_refused("\"a\",2\r3\n", "carriage return");
    check_refused("\"a\",2\r\r\n", "carriage return");
    check_refused("\"a\"\r\n,2\r\n", "carriage return");
}

static void test_a_failure_leaves_nothing_behind(void **state)
{
    char bad[] = "\"a\",\"b\" c,d\n";
    char good[] = "\"x\",y\n";
    (void)state;
    assert_ok(csv_splitter_init(&splitter, ',', 8));
    for (int i = 0; i < 3; i++) {
        char copy[32];
        memcpy(copy, bad, sizeof(bad));
        assert_int_equal(csv_split(&splitter, copy, strlen(bad)), ERROR_INPUT);
        memcpy(copy, good, sizeof(good));
        assert_ok(csv_split(&splitter, copy, strlen(good)));
        assert_int_equal(splitter.count, 2);
        assert_memory_equal(splitter.fields[0].data, "x", 1);
    }
    csv_splitter_release(&splitter);
}

static void test_fields_beyond_the_capacity_are_counted(void **state)
{
    char record[] = "1,2,3,4,5\n";
    char quoted[] = "1,2,\"3\",4,5\n";
    (void)state;
    assert_ok(csv_splitter_init(&splitter, ',', 2));
    assert_ok(csv_split(&splitter, record, strlen(record)));
    assert_int_equal(splitter.count, 5);
    assert_ok(csv_split(&splitter, quoted, strlen(quoted)));
    assert_int_equal(splitter.count, 5);
    csv_splitter_release(&splitter);
}

/* The one property that our own paths stand on: they and libcsv give the same fields, or refuse. */
static void check_as_libcsv(char *record, size_t length, char delimiter)
{
    char copy[128];
    struct csv_splitter other;
    memcpy(copy, record, length);
    assert_ok(csv_splitter_init(&splitter, delimiter, 32));
    assert_ok(csv_splitter_init(&other, delimiter, 32));
    enum error own = csv_split(&splitter, record, length);
    enum error oracle = csv_split_quoted(&other, copy, length);
    assert_int_equal(own, oracle);
    if (!own) {
        assert_int_equal(splitter.count, other.count);
        for (size_t i = 0; i < other.count; i++) {
            assert_int_equal(splitter.fields[i].length, other.fields[i].length);
            assert_memory_equal(splitter.fields[i].data, other.fields[i].data,
                                other.fields[i].length);
        }
    }
    csv_splitter_release(&splitter);
    csv_splitter_release(&other);
}

static void end_line(uint64_t *seed, char *record, size_t *length)
{
    if (dice_below(seed, 2))
        record[(*length)++] = '\r';
    record[(*length)++] = '\n';
}

static void test_records_without_quotes_are_split_as_by_libcsv(void **state)
{
    static const char alphabet[] = "01,,,; \t\rab\x80\0.-";
    uint64_t seed = unit_seed() + 1;
    (void)state;
    for (int round = 0; round < 200000 / UNIT_LESS; round++) {
        char record[64];
        char delimiter = ",;\t"[dice_below(&seed, 3)];
        size_t length = dice_below(&seed, 24);
        for (size_t i = 0; i < length; i++)
            record[i] = alphabet[dice_below(&seed, sizeof(alphabet) - 1)];
        end_line(&seed, record, &length);
        if (!csv_record_is_blank(record, length, delimiter))
            check_as_libcsv(record, length, delimiter);
    }
}

/* Half of them are what programs write, the others anything. */
static void test_records_with_quotes_are_split_as_by_libcsv(void **state)
{
    static const char *const pieces[] = {"\"ab\"", "\"\"",     "\"a,b\"",       "\"x\"\"y\"",
                                         "7",      "\"\"\"\"", "\"a\nb\"",      " z ",
                                         "",       "\"\r\n\"", "\"\"\"q\"\"\"", "a\"b",
                                         "\"a\"b", " \"a\"",   "\"a\" ",        "\"",
                                         "\r",     "\t",       "\"a",           "a\""};
    uint64_t seed = unit_seed() + 2;
    (void)state;
    for (int round = 0; round < 200000 / UNIT_LESS; round++) {
        char record[128];
        char delimiter = ",;\t"[dice_below(&seed, 3)];
        size_t length = 0, fields = 1 + dice_below(&seed, 6);
        for (size_t i = 0; i < fields; i++) {
            const char *piece = pieces[dice_below(&seed, round % 2 ? 10 : 20)];
            memcpy(record + length, piece, strlen(piece));
            length += strlen(piece);
            record[length] = delimiter;
            length += i + 1 < fields;
        }
        end_line(&seed, record, &length);
        bool is_one = csv_count_record(record, length, NULL) == length;
        if (is_one && !csv_record_is_blank(record, length, delimiter))
            check_as_libcsv(record, length, delimiter);
    }
}

static void test_bytes_are_counted(void **state)
{
    static char bytes[20000];
    uint64_t seed = unit_seed() + 2;
    (void)state;
    memset(bytes, ',', sizeof(bytes));
    assert_int_equal(csv_count_bytes(bytes, sizeof(bytes), ','), sizeof(bytes));
    assert_int_equal(csv_count_bytes(bytes, 0, ','), 0);
    for (int round = 0; round < 300; round++) {
        size_t length = dice_below(&seed, round < 200 ? 100 : sizeof(bytes));
        size_t start = dice_below(&seed, sizeof(bytes) - length);
        size_t expected = 0;
        for (size_t i = 0; i < length; i++) {
            bytes[start + i] = (char)dice(&seed) % 3;
            expected += bytes[start + i] == 1;
        }
        assert_int_equal(csv_count_bytes(bytes + start, length, 1), expected);
    }
}

static void test_records_end_outside_quotes(void **state)
{
    (void)state;
    assert_int_equal(csv_count_record("a\nb\n", 4, NULL), 2);
    assert_int_equal(csv_count_record("a,b", 3, NULL), 0);
    assert_int_equal(csv_count_record("\"a\nb\"\nc\n", 8, NULL), 6);
    assert_int_equal(csv_count_record("x,\"a\n\n\"\"\nb\"\nc\n", 14, NULL), 12);
    assert_int_equal(csv_count_record("\"a\nb\n", 5, NULL), 0);
    assert_int_equal(csv_count_record("", 0, NULL), 0);
    assert_int_equal(csv_count_record("a\n\"b\n", 5, NULL), 2);
}

/* What csv_count_record() is to find, byte by byte. */
static size_t record_end(const char *data, size_t length, size_t *ret_lines)
{
    bool open = false;
    *ret_lines = 0;
    for (size_t at = 0; at < length; at++) {
        open ^= data[at] == '"';
        *ret_lines += data[at] == '\n';
        if (data[at] == '\n' && !open)
            return at + 1;
    }
    return 0;
}

static void test_records_of_all_lengths_end_outside_quotes(void **state)
{
    enum { BYTES = 300 };
    uint64_t seed = unit_seed() + 4;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char data[BYTES];
        size_t length = dice_below(&seed, BYTES), lines = 0, expected_lines;
        size_t rare = 2 + dice_below(&seed, 200);
        for (size_t i = 0; i < length; i++)
            data[i] = dice_below(&seed, rare) ? 'a' : "\"\n"[dice_below(&seed, 2)];
        assert_int_equal(csv_count_record(data, length, &lines),
                         record_end(data, length, &expected_lines));
        assert_int_equal(lines, expected_lines);
    }
}

static void test_blank_records(void **state)
{
    (void)state;
    assert_true(csv_record_is_blank("\n", 1, ','));
    assert_true(csv_record_is_blank("\r\n", 2, ','));
    assert_true(csv_record_is_blank(" \t \r\n", 5, ','));
    assert_false(csv_record_is_blank(" \t \n", 4, '\t'));
    assert_false(csv_record_is_blank("0\n", 2, ','));
    assert_false(csv_record_is_blank(",\n", 2, ','));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_unquoted_fields),
    cmocka_unit_test(test_quoted_fields),
    cmocka_unit_test(test_broken_quotes_are_refused),
    cmocka_unit_test(test_lone_carriage_returns_are_refused),
    cmocka_unit_test(test_a_failure_leaves_nothing_behind),
    cmocka_unit_test(test_fields_beyond_the_capacity_are_counted),
    cmocka_unit_test(test_records_without_quotes_are_split_as_by_libcsv),
    cmocka_unit_test(test_records_with_quotes_are_split_as_by_libcsv),
    cmocka_unit_test(test_bytes_are_counted),
    cmocka_unit_test(test_records_end_outside_quotes),
    cmocka_unit_test(test_records_of_all_lengths_end_outside_quotes),
    cmocka_unit_test(test_blank_records),
};

UNIT_MAIN(tests)
