/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/label_check: Labels of the store against those that the sampler says. */
#include "tests/unit/feed_unit.h"

#include "loader/feed/label_check.h"

/* What a sampler says to /labels, and what a store of these labels answers to number 1. */
static enum error check(const char *labels, const struct store_info *info, double label,
                        uint32_t number)
{
    struct fake_sampler sampler = {.units = 10, .labels = labels};
    struct sampler_client *client = NULL;
    struct label_check *check = NULL;
    int64_t id = 77;
    enum row_status status = ROW_OK;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, NULL, 10000, &client));
    assert_ok(label_check_new(info, &check));
    enum error error = label_check_fetch(check, client);
    if (!error)
        error = label_check_rows(check, &id, &number, &label, &status, 1);
    status = ROW_BAD;
    assert_ok(label_check_rows(check, &id, &number, &label, &status, 1));
    label_check_free(check);
    sampler_client_close(client);
    fake_stop(&sampler);
    return error;
}

#define LABELS "{\"labels\":[{\"label\":%s,\"units\":4},{\"label\":%s,\"units\":6}]}"

static enum error check_second(const char *first, const char *second, const struct store_info *info,
                               double label)
{
    char labels[200];
    snprintf(labels, sizeof(labels), LABELS, first, second);
    return check(labels, info, label, 1);
}

static const char *const words[] = {"10", "9007199254740993", "cat", "dog"};
static const struct store_info integers = {.uri = "csv:x.csv", .label_kind = LABEL_INTEGER};
static const struct store_info reals = {.uri = "csv:x.csv", .label_kind = LABEL_REAL};
static const struct store_info texts = {
    .uri = "csv:x.csv", .label_kind = LABEL_TEXT, .label_texts = words, .label_text_count = 4};
static const struct store_info none = {.uri = "csv:x.csv", .label_kind = LABEL_NONE};

static void test_the_same_number_or_text(void **state)
{
    (void)state;
    assert_ok(check_second("1", "3", &integers, 3));
    assert_ok(check_second("-1", "\"3.0\"", &integers, 3));
    assert_ok(check_second("\"0.5\"", "\"1.0\"", &reals, 1));
    assert_ok(check_second("\"0.5\"", "\"1e-3\"", &reals, 0.001));
    assert_ok(check_second("\"cat\"", "\"dog\"", &texts, 3));
    assert_ok(check_second("1", "10", &texts, 0));
    assert_ok(check_second("1", "9007199254740993", &texts, 1)); /* exact beyond 2^53 */
}

static void test_another_label(void **state)
{
    (void)state;
    assert_fails(check_second("1", "3", &integers, 4), ERROR_INPUT,
                 "id 77: the sampler says its label is \"3\", csv:x.csv has \"4\"");
    assert_fails(check_second("\"0.5\"", "\"1.0\"", &reals, 1.25), ERROR_INPUT, "\"1.25\"");
    assert_fails(check_second("\"cat\"", "\"dog\"", &texts, 2), ERROR_INPUT, "has \"cat\"");
    assert_fails(check_second("\"cat\"", "\"bee\"", &texts, 2), ERROR_INPUT, "\"bee\"");
    assert_fails(check_second("\"cat\"", "\"bee\"", &integers, 0), ERROR_INPUT, "\"bee\"");
    assert_fails(check_second("1", "9007199254740992", &texts, 1), ERROR_INPUT, "0992");
    assert_fails(check_second("\"cat\"", "\"dog\"", &texts, 9), ERROR_INPUT, "has \"9\"");
    assert_fails(check_second("\"cat\"", "\"dog\"", &texts, -1), ERROR_INPUT, "has \"-1\"");
    assert_fails(check("{\"labels\":[{\"label\":1},{\"label\":2}]}", &integers, 1, 2), ERROR_INPUT,
                 "\"?\"");
    assert_fails(check("{\"labels\":[{\"label\":1},{\"label\":2}]}", &integers, 1, UINT32_MAX),
                 ERROR_INPUT, "\"?\"");
}

static void test_nothing_to_compare(void **state)
{
    (void)state;
    assert_ok(check(NULL, &integers, 5, 3));                           /* the sampler keeps them */
    assert_ok(check("{\"labels\":[{\"label\":0}]}", &integers, 5, 0)); /* a frame without labels */
    assert_fails(check("{\"labels\":[{\"label\":4}]}", &integers, 5, 0), ERROR_INPUT,
                 "its label is \"4\"");
    assert_ok(check("{\"labels\":[]}", &integers, 5, 0));
    assert_ok(check_second("1", "2", &none, 0));
}

static void test_answers_that_no_sampler_gives(void **state)
{
    (void)state;
    assert_fails(check("<html>", &integers, 0, 0), ERROR_NETWORK, "is not a Tombola sampler");
    assert_fails(check("{}", &integers, 0, 0), ERROR_NETWORK, "labels");
    assert_fails(check("{\"labels\":[{\"label\":null}]}", &integers, 0, 0), ERROR_NETWORK,
                 "entry 0 has no label");
    assert_fails(check("{\"labels\":[7]}", &integers, 0, 0), ERROR_NETWORK, "entry 0");
}

/* Then nothing is known of them, unlike where the sampler keeps them or has too many. */
static void test_an_answer_that_is_cut_off(void **state)
{
    struct fake_sampler sampler = {
        .units = 10, .labels = "{\"labels\":[{\"label\":1},{\"label\":2}]}", .cuts_labels = true};
    struct sampler_client *client = NULL;
    struct label_check *check = NULL;
    (void)state;
    fake_start(&sampler);
    assert_ok(sampler_client_open(sampler.url, NULL, NULL, 300, &client));
    assert_ok(label_check_new(&integers, &check));
    assert_int_not_equal(label_check_fetch(check, client), OK);
    assert_non_null(strstr(error_message(), "/labels?stream=default"));
    label_check_free(check);
    sampler_client_close(client);
    fake_stop(&sampler);
}

static void test_more_labels_than_are_compared(void **state)
{
    size_t bytes = SAMPLER_LABELS_BYTES_LIMIT + 1;
    char *labels = malloc(bytes + 1);
    (void)state;
    memset(labels, ' ', bytes);
    labels[bytes] = '\0';
    assert_ok(check(labels, &integers, 5, 3));
    free(labels);
}

/* Ids and labels of the fakes: id mod 10. */
static void check_feed(enum feed_pull pull, const char *labels, bool trust, bool same)
{
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 1000, 10);
    setting.sampler.labels = labels;
    setting.options.pull = pull;
    setting.options.trust_labels = trust;
    setting_open(&setting);
    if (same)
        assert_int_equal(check_to_the_end(&setting, 0), 100);
    else
        assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_INPUT, "the sampler says");
    setting_close(&setting);
}

static void test_feeds_compare(void **state)
{
    static const char right[] =
        "{\"labels\":[{\"label\":0},{\"label\":1},{\"label\":2},{\"label\":3},{\"label\":4},"
        "{\"label\":5},{\"label\":6},{\"label\":7},{\"label\":8},{\"label\":9}]}";
    static const char wrong[] =
        "{\"labels\":[{\"label\":1},{\"label\":2},{\"label\":3},{\"label\":4},{\"label\":5},"
        "{\"label\":6},{\"label\":7},{\"label\":8},{\"label\":9},{\"label\":10}]}";
    (void)state;
    for (enum feed_pull pull = FEED_INDEX; pull <= FEED_DRAW; pull++) {
        check_feed(pull, right, false, true);
        check_feed(pull, wrong, false, false);
        check_feed(pull, wrong, true, true);
        check_feed(pull, NULL, false, true);
    }
}

/* A bad row that the store knows of is reported before the first batch, if it will come. */
static void test_a_known_bad_row(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct setting setting;
        const struct feed_batch *batch;
        setting_init(&setting, 1000, 10);
        setting.store.bad_id = fake_id(&setting.sampler, 995);
        setting.store.store.info.rows = i == 1 ? 1001 : 1000;
        setting.store.store.info.first_bad_row = "x.csv, line 7: bad";
        setting.options.bad_rows = i == 2 ? BAD_ROWS_REPLACE : BAD_ROWS_FAIL;
        setting_open(&setting);
        enum error error = feed_next(setting.feed, NULL, &batch);
        if (i == 0)
            assert_fails(error, ERROR_INPUT, "x.csv, line 7: bad");
        else
            assert_ok(error);
        setting_close(&setting);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_number_or_text),
        cmocka_unit_test(test_another_label),
        cmocka_unit_test(test_nothing_to_compare),
        cmocka_unit_test(test_answers_that_no_sampler_gives),
        cmocka_unit_test(test_an_answer_that_is_cut_off),
        cmocka_unit_test(test_more_labels_than_are_compared),
        cmocka_unit_test(test_feeds_compare),
        cmocka_unit_test(test_a_known_bad_row),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
