/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/csv_row. */
#include "tests/unit/store_unit.h"

#include <math.h>

#include "loader/csv/csv_row.h"

enum { FEATURES = 6, RECORD_BYTES = 512 };

static struct csv_columns columns;
static struct csv_decoder decoder;

/* Columns from a header line and the features among them; NULL: all but label and id. */
static void open_decoder(const char *header, const char *features)
{
    char record[RECORD_BYTES];
    struct csv_splitter first;
    struct column_choice choice = {.names = {[COLUMN_FEATURE] = features}};
    snprintf(record, sizeof(record), "%s\n", header);
    assert_ok(csv_splitter_init(&first, ',', 64));
    assert_ok(csv_split(&first, record, strlen(record)));
    assert_ok(csv_columns_init(&columns, &first, CSV_HEADER_YES, &choice));
    csv_splitter_release(&first);
    assert_ok(csv_decoder_init(&decoder, &columns, ','));
}

static void close_decoder(void)
{
    csv_decoder_release(&decoder);
    csv_columns_release(&columns);
}

struct decoded {
    enum error error;
    struct store_row row;
    char label[64];
    char message[ERROR_MESSAGE_BYTES];
    union {
        uint8_t bytes[FEATURES];
        float floats[FEATURES];
        int32_t integers[FEATURES];
    } features;
};

/* Decodes a copy with padding exactly as long as promised, so that a sanitizer sees more. */
static struct decoded decode(const char *text, enum element element)
{
    struct decoded decoded = {.error = OK};
    size_t length = strlen(text);
    char *record = calloc(1, length + CSV_PADDING_BYTES);
    memcpy(record, text, length);
    decoded.error =
        csv_decode_row(&decoder, record, length, false, element, &decoded.features, &decoded.row);
    if (!decoded.error)
        snprintf(decoded.label, sizeof(decoded.label), "%.*s", (int)decoded.row.label.length,
                 decoded.row.label.data);
    snprintf(decoded.message, sizeof(decoded.message), "%s", error_message());
    free(record);
    return decoded;
}

/* The same fields in quotes: those that the bits of `which` name. A blank behind the closing quote
 * leads through libcsv and the slow path. */
static void quote(const char *record, uint64_t which, const char *closing, char *out)
{
    size_t length = strcspn(record, "\r\n");
    for (const char *field = record, *end = record + length; field <= end; which >>= 1) {
        size_t bytes = strcspn(field, ",\r\n");
        out += sprintf(out, which & 1 ? "\"%.*s%s" : "%.*s", (int)bytes, field, closing);
        field += bytes + 1;
        if (field <= end)
            *out++ = ',';
    }
    sprintf(out, "%s", record + length);
}

static void check_same(const struct decoded *a, const struct decoded *b, enum element element,
                       const char *record)
{
    if (a->error != b->error || (!a->error && a->row.status != b->row.status))
        fail_msg("%s: %d %d \"%s\", %d %d \"%s\"", record, a->error, a->row.status, a->message,
                 b->error, b->row.status, b->message);
    if (a->error || a->row.status != ROW_OK)
        return;
    assert_int_equal(a->row.id, b->row.id);
    assert_string_equal(a->label, b->label);
    assert_int_equal(a->row.is_u8, b->row.is_u8);
    if (element == ELEMENT_I32)
        assert_memory_equal(a->features.integers, b->features.integers,
                            sizeof(a->features.integers));
    else if (element == ELEMENT_F32)
        assert_memory_equal(a->features.floats, b->features.floats, sizeof(a->features.floats));
    else if (a->row.is_u8)
        assert_memory_equal(a->features.bytes, b->features.bytes, sizeof(a->features.bytes));
}

/* A field that mostly is a byte, and now and then something that looks like one. */
static const char *random_field(uint64_t *seed)
{
    static const char *const odd[] = {
        "",           "00",          "007",         "255",        "256",         "999",
        "1000",       "-1",          "-0",          "5.0",        "1e2",         ".5",
        "1.5",        "x",           "0x1",         "+1",         "1e9",         "3.",
        "1e39",       "2e",          "0000000255",  "12a",        "1 2",         "-",
        "--1",        "16777217",    "2147483647",  "2147483648", "-2147483648", "-2147483649",
        "9999999999", "00000000001", "2147483647.0"};
    static char number[8];
    size_t kind = dice_below(seed, 60);
    if (kind < sizeof(odd) / sizeof(odd[0]) && dice_below(seed, 4) == 0)
        return odd[kind];
    snprintf(number, sizeof(number), "%zu", dice_below(seed, 2) ? 0 : dice_below(seed, 256));
    return number;
}

static void random_record(uint64_t *seed, char *out)
{
    size_t fields = 2 + FEATURES;
    if (dice_below(seed, 30) == 0)
        fields += dice_below(seed, 3) - 1;
    out[0] = '\0';
    for (size_t i = 0; i < fields; i++) {
        strcat(out, i ? "," : "");
        strcat(out, random_field(seed));
    }
    strcat(out, dice_below(seed, 2) ? "\n" : "\r\n");
}

static void test_quick_and_slow_path_agree(void **state)
{
    static const char *const headers[] = {"label,id,a,b,c,d,e,f", "a,b,c,label,d,e,f,id",
                                          "id,a,b,c,d,e,f,label", "x,id,a,b,y,c,label,z"};
    uint64_t seed = unit_seed() + 3;
    (void)state;
    for (size_t h = 0; h < sizeof(headers) / sizeof(headers[0]); h++) {
        open_decoder(headers[h], headers[h][0] == 'x' ? "a,b,c" : NULL);
        for (int round = 0; round < 20000; round++) {
            char record[RECORD_BYTES];
            char quoted[RECORD_BYTES];
            enum element element = (enum element)dice_below(&seed, ELEMENTS);
            random_record(&seed, record);
            quote(record, UINT64_MAX, "\" ", quoted);
            struct decoded slow = decode(quoted, element);
            struct decoded quick = decode(record, element);
            check_same(&quick, &slow, element, record);
            quote(record, dice_below(&seed, 2) ? UINT64_MAX : dice(&seed), "\"", quoted);
            quick = decode(quoted, element);
            check_same(&quick, &slow, element, quoted);
        }
        close_decoder();
    }
}

/* A blank behind the id's closing quote leads through the slow path. */
static void test_quotes_in_keys_and_skipped_fields(void **state)
{
    static const char *const pieces[] = {"x",
                                         "\"x\"",
                                         "\"\"",
                                         "",
                                         "\"a,b\"",
                                         "\"a\"\"b\"",
                                         "a\"b",
                                         "\"a\"b",
                                         "\"a\nb\"",
                                         "\"a",
                                         "a\"",
                                         "\" a \"",
                                         "\"\xc3\xa9\"",
                                         "\"\xff\"",
                                         "\"\r\n\"",
                                         "a\rb",
                                         "\"a\" \"",
                                         "\"a,,,,,,,,,,,,,,,,,,,,,,,,,,b\""};
    static const char *const features[] = {
        "1,2",          "\"1\",\"2\"",   "\"1\"x\"2\"", "\"1\"\"2\"", "\"1\",2",
        "\"1\" ,\"2\"", "\"1\",\"2.5\"", "1,\"2\"",     "\"1,2\",3",  "\"1\",\"2"};
    enum { PIECES = sizeof(pieces) / sizeof(pieces[0]) };
    enum { FORMS = sizeof(features) / sizeof(features[0]) };
    (void)state;
    open_decoder("id,x,label,a,b,y", "a,b");
    for (size_t i = 0; i < PIECES * PIECES * PIECES; i++) {
        char record[RECORD_BYTES], slow_record[RECORD_BYTES];
        const char *x = pieces[i % PIECES], *label = pieces[i / PIECES % PIECES];
        const char *y = pieces[i / PIECES / PIECES], *form = features[i % FORMS];
        snprintf(record, sizeof(record), "\"5\",%s,%s,%s,%s\n", x, label, form, y);
        snprintf(slow_record, sizeof(slow_record), "\"5\" ,%s,%s,%s,%s\n", x, label, form, y);
        struct decoded quick = decode(record, ELEMENT_F32);
        struct decoded slow = decode(slow_record, ELEMENT_F32);
        check_same(&quick, &slow, ELEMENT_F32, record);
        assert_string_equal(quick.message, slow.message);
    }
    close_decoder();
}

static void check_integers(const char *record, const int32_t wanted[FEATURES])
{
    struct decoded row = decode(record, ELEMENT_I32);
    assert_ok(row.error);
    assert_int_equal(row.row.status, ROW_OK);
    assert_memory_equal(row.features.integers, wanted, sizeof(row.features.integers));
}

static void test_integers_of_32_bits(void **state)
{
    static const int32_t wanted[] = {INT32_MAX, INT32_MIN, 16777217, -1, 0, 7}, zeros[FEATURES];
    static const char *const bad[] = {"2147483648", "-2147483649", "9999999999", "1.5", "",
                                      "x",          "1e10",        "nan",        "NA"};
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    check_integers("7,12,2147483647,-2147483648,16777217,-1,0,7\n", wanted);
    check_integers("7,12,2147483647.0,-2147483648,16777217,-1,-0,007\r\n", wanted);
    check_integers("7,12,\"2147483647\",-2147483648,1.6777217e7,-1,0,7\n", wanted);
    check_integers("7,12,000,0,0,0,0,0\n", zeros); /* fields end within the ten digits of one */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char record[RECORD_BYTES];
        snprintf(record, sizeof(record), "7,12,1,%s,3,4,5,6\n", bad[i]);
        struct decoded row = decode(record, ELEMENT_I32);
        assert_ok(row.error);
        assert_int_equal(row.row.status, ROW_BAD);
        assert_non_null(strstr(row.message, "column \"b\" is "));
        assert_non_null(
            strstr(row.message,
                   "; an integer from -2147483648 to 2147483647 (element=i32) belongs there"));
    }
    close_decoder();
}

static void test_bytes_and_floats(void **state)
{
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    struct decoded row = decode("7,12,0,0,0,0,255,1\n", ELEMENT_U8);
    assert_ok(row.error);
    assert_true(row.row.is_u8);
    assert_int_equal(row.row.id, 12);
    assert_string_equal(row.label, "7");
    assert_memory_equal(row.features.bytes, "\0\0\0\0\xff\x01", 6);
    row = decode("7,12,0,0,0,0,255,1\n", ELEMENT_F32);
    assert_true(row.features.floats[4] == 255 && row.features.floats[5] == 1);
    row = decode("7,12,0,-2.5,0,0,255,1e-3\n", ELEMENT_F32);
    assert_false(row.row.is_u8);
    assert_true(row.features.floats[1] == -2.5F && row.features.floats[5] == 1e-3F);
    close_decoder();
}

static void check_bad(const char *text, enum error error, const char *says)
{
    struct decoded row = decode(text, ELEMENT_F32);
    assert_int_equal(row.error, error);
    if (!error)
        assert_int_equal(row.row.status, ROW_BAD);
    if (!strstr(row.message, says))
        fail_msg("\"%s\" does not say \"%s\"", row.message, says);
}

static void test_messages_name_the_column(void **state)
{
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    check_bad("7,12,0,0,x,0,0,0\n", OK, "column \"c\" is \"x\"; a number belongs there");
    check_bad("7,12,0,0,,0,0,0\n", OK, "column \"c\" is empty; a number belongs there");
    check_bad("7,12,0,0,0,0,0,1e39\n", OK, "column \"f\" is \"1e39\"; a number that fits");
    check_bad("7,12,0,0,0,0,0,nan\n", OK, "column \"f\" is \"nan\"");
    check_bad("7,12,x,0,y,0,0,z\n", OK, "column \"a\" is \"x\"");
    check_bad(",12,0,0,0,0,0,0\n", ERROR_INPUT, "column \"label\" is empty; a label");
    check_bad("\xff,12,0,0,0,0,0,0\n", ERROR_INPUT, "UTF-8");
    check_bad("7,-1,0,0,0,0,0,0\n", ERROR_INPUT, "column \"id\" is \"-1\"; an id from 0 to 9223");
    check_bad("7,9223372036854775808,0,0,0,0,0,0\n", ERROR_INPUT, "column \"id\"");
    check_bad("7,1.0,0,0,0,0,0,0\n", ERROR_INPUT, "column \"id\"");
    check_bad("7,12,0,0,0,0,0\n", ERROR_INPUT, "the row has 7 fields, the header has 8");
    check_bad("7,12,0,0,0,0,0,0,0\n", ERROR_INPUT, "the row has 9 fields, the header has 8");
    check_bad("7,12,0,0,0,0,0,0,\n", ERROR_INPUT, "the row has 9 fields");
    check_bad("7\n", ERROR_INPUT, "the row has 1 field, the header has 8");
    close_decoder();
}

static void test_nul_is_no_number_and_no_label(void **state)
{
    char record[64 + CSV_PADDING_BYTES] = "7,1,0,0,0,0,0,0\n";
    struct store_row row;
    float features[FEATURES];
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    record[4] = '\0';
    assert_ok(csv_decode_row(&decoder, record, 16, true, ELEMENT_F32, features, &row));
    assert_int_equal(row.status, ROW_BAD);
    memcpy(record, "7,1,0", 5);
    record[0] = '\0';
    assert_fails(csv_decode_row(&decoder, record, 16, true, ELEMENT_F32, features, &row),
                 ERROR_INPUT, "UTF-8 text without NUL");
    close_decoder();
}

/* The quick path takes as many columns at once as have one role. */
static void test_runs_are_as_long_as_they_can_be(void **state)
{
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    assert_int_equal(columns.run_count, 3);
    close_decoder();
    open_decoder("x,y,id,a,b,label,z", "a,b");
    assert_int_equal(columns.run_count, 5);
    close_decoder();
}

static void test_keys_only_counts_fields(void **state)
{
    char good[64 + CSV_PADDING_BYTES] = "7,12,x,,0,0,0,0\n";
    char less[64 + CSV_PADDING_BYTES] = "7,12,x,,0,0,0\n";
    char more[64 + CSV_PADDING_BYTES] = "7,12,x,,0,0,0,0,0\n";
    struct store_row row;
    (void)state;
    open_decoder("label,id,a,b,c,d,e,f", NULL);
    assert_ok(csv_decode_row(&decoder, good, strlen(good), true, ELEMENT_U8, NULL, &row));
    assert_int_equal(row.status, ROW_OK);
    assert_int_equal(row.id, 12);
    assert_fails(csv_decode_row(&decoder, less, strlen(less), true, ELEMENT_U8, NULL, &row),
                 ERROR_INPUT, "7 fields");
    assert_fails(csv_decode_row(&decoder, more, strlen(more), true, ELEMENT_U8, NULL, &row),
                 ERROR_INPUT, "9 fields");
    close_decoder();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_quick_and_slow_path_agree),
    cmocka_unit_test(test_quotes_in_keys_and_skipped_fields),
    cmocka_unit_test(test_integers_of_32_bits),
    cmocka_unit_test(test_bytes_and_floats),
    cmocka_unit_test(test_messages_name_the_column),
    cmocka_unit_test(test_nul_is_no_number_and_no_label),
    cmocka_unit_test(test_runs_are_as_long_as_they_can_be),
    cmocka_unit_test(test_keys_only_counts_fields),
};

UNIT_MAIN(tests)
