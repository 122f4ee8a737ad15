/* SPDX-License-Identifier: MIT */
/* Covers trainer/model/feature_names. */
#include "tests/unit/unit.h"

#include "common/log.h"
#include "trainer/model/feature_names.h"

#define FEATURES 3

static struct store_info info_of(const char *const *names, size_t count)
{
    return (struct store_info){.uri = "csv:x.csv", .features = count, .feature_names = names};
}

/* What a checkpoint would give back. */
static void round_trip(const struct store_info *info, struct feature_names *ret_names)
{
    struct feature_names names;
    struct buffer text = BUFFER_INIT(1 << 20);

    assert_ok(feature_names_init(&names, info));
    assert_ok(feature_names_print(&names, &text));
    assert_ok(feature_names_parse(text.data, "the names", ret_names));
    assert_int_equal(ret_names->count, names.count);
    assert_int_equal(ret_names->by_position, names.by_position);
    assert_int_equal(ret_names->first_count, names.first_count);
    for (size_t i = 0; i < names.first_count; i++)
        assert_string_equal(ret_names->first[i], names.first[i]);
    feature_names_release(&names);
    buffer_release(&text);
}

/* What a checkpoint of `theirs` finds in a store of `ours`. */
static enum error match(const char *const *theirs, const char *const *ours, size_t count,
                        int32_t **ret_columns)
{
    struct store_info trained = info_of(theirs, FEATURES), now = info_of(ours, count);
    struct feature_names names;

    round_trip(&trained, &names);
    enum error error = feature_names_match(&names, "model.ckpt", &now, true, ret_columns);
    feature_names_release(&names);
    return error;
}

/* The columns that are expected, as digits; "": by position. */
static void check(const char *const *theirs, const char *const *ours, size_t count,
                  const char *columns)
{
    int32_t *found = NULL;

    assert_ok(match(theirs, ours, count, &found));
    assert_int_equal(found != NULL, columns[0] != 0);
    for (size_t i = 0; columns[i]; i++)
        assert_int_equal(found[i], columns[i] - '0');
    free(found);
}

static void check_refusal(const char *const *theirs, const char *const *ours, size_t count,
                          const char *text)
{
    int32_t *found = NULL;

    assert_fails(match(theirs, ours, count, &found), ERROR_CONFLICT, text);
    assert_null(found);
}

static void test_orders(void **state)
{
    static const char
        *const abc[] = {"a", "b", "c"},
               *const bac[] = {"b", "a", "c"}, *const other[] = {"a", "b", "d"},
               *const p[] = {"p0", "p1", "p2"}, *const mixed[] = {"p0", "p2", "p1"},
               *const numbers[] = {"1", "2", "4"}, *const odd[] = {"\"", "\n\\", "\xc3\xa4"},
               *const more[] = {"z", "c", "b", "y", "a"}, *const large[] = {"z", "B", "C", "A"},
               *const lacking[] = {"z", "c", "y", "a"}, *const dab[] = {"d", "a", "b"},
               *const twice[] = {"b", "A", "a"}, *const others[] = {"a", "b", "n", "N"};

    (void)state;
    check(abc, abc, 3, "");
    check(odd, odd, 3, "");
    check(abc, bac, 3, "102");
    check(abc, more, 5, "421");
    check(abc, other, 3, ""); /* with a warning */
    check(abc, p, 3, "");
    check(p, abc, 3, "");
    check(p, numbers, 3, "");
    check(numbers, p, 3, "");
    check(p, mixed, 3, "021");
    check(mixed, p, 3, "021");
    check(mixed, mixed, 3, "");
    check(abc, large, 4, "312");
    check_refusal(abc, dab, 3,
                  "has no column \"c\", which the model of model.ckpt takes; it has 2 of");
    check_refusal(abc, lacking, 4, "has no column \"b\"");
    check_refusal(abc, abc, 2, "has no column \"c\"");
    /* Columns that only case distinguishes: what is found by bytes stays found. */
    check_refusal(abc, twice, 3,
                  "has no column \"c\", which the model of model.ckpt takes; it has 2");
    check_refusal(abc, others, 4,
                  "has no column \"c\", which the model of model.ckpt takes; it has 2");
}

static void test_nothing_is_known(void **state)
{
    static const char *const abc[] = {"a", "b", "c"};
    struct store_info named = info_of(abc, FEATURES), unnamed = info_of(NULL, FEATURES);
    struct feature_names names = {.count = 0};
    int32_t *columns = NULL;

    (void)state;
    assert_ok(feature_names_match(&names, "an old checkpoint", &named, true, &columns));
    assert_ok(feature_names_init(&names, &unnamed));
    assert_int_equal(names.count, 0);
    feature_names_release(&names);
    assert_ok(feature_names_init(&names, &named));
    assert_ok(feature_names_match(&names, "a checkpoint", &unnamed, true, &columns));
    assert_null(columns);
    feature_names_release(&names);
}

static void test_very_many(void **state)
{
    enum { COUNT = 100000 };
    char(*texts)[24] = calloc(COUNT, sizeof(*texts));
    const char **names = calloc(COUNT, sizeof(*names)), *swapped;
    struct store_info info = info_of(names, COUNT);
    struct feature_names kept, copy;
    int32_t *columns = NULL;
    struct buffer text = BUFFER_INIT(1 << 20);

    (void)state;
    assert_true(texts && names);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof(texts[i]), "feature %zu", i);
        names[i] = texts[i];
    }
    round_trip(&info, &kept);
    assert_ok(feature_names_print(&kept, &text));
    assert_true(text.length < FEATURE_NAMES_BYTES + 200);
    assert_ok(feature_names_copy(&copy, &kept));
    feature_names_release(&kept);
    assert_ok(feature_names_match(&copy, "a checkpoint", &info, true, &columns));
    swapped = names[COUNT - 1];
    names[COUNT - 1] = names[COUNT - 2];
    names[COUNT - 2] = swapped;
    assert_fails(feature_names_match(&copy, "a checkpoint", &info, true, &columns), ERROR_CONFLICT,
                 "too many to be found by name");
    feature_names_release(&copy);
    buffer_release(&text);
    free(names);
    free(texts);
}

static void test_malformed_lists_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "the names"},
        {"[]", "count"},
        {"{}", "count"},
        {"{\"count\":0}", "\"count\" is 0"},
        {"{\"count\":-1,\"by_position\":true}", "\"count\" is -1"},
        {"{\"count\":1}", "list"},
        {"{\"count\":1,\"list\":\"00\",\"set\":\"00\",\"first\":[]}", "16 hexadecimal digits"},
        {"{\"count\":1,\"list\":\"000000000000000g\"}", "16 hexadecimal digits"},
        {"{\"count\":1,\"list\":\"0000000000000000\",\"set\":\"0000000000000000\"}", "first"},
        {"{\"count\":1,\"list\":\"0000000000000000\",\"set\":\"0000000000000000\",\"first\":[1]}",
         "a number"},
        {"{\"count\":1,\"list\":\"0000000000000000\",\"set\":\"0000000000000000\","
         "\"first\":[\"a\",\"b\"]}",
         "more names"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feature_names names = {.count = 0};

        assert_fails(feature_names_parse(cases[i].text, "the names", &names), ERROR_INPUT,
                     cases[i].message);
        assert_int_equal(names.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_very_many),
        cmocka_unit_test(test_malformed_lists_are_refused),
    };

    log_set_level(LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
