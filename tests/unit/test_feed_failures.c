/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/feed: A feed whose sampler, store or caller misbehaves: every failure reaches
 * feed_next() with its message, behind the batches that lie before it, and closing always ends at
 * once.
 */
#include "tests/unit/feed_unit.h"

#include <signal.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/stop.h"
#include "loader/feed/sampler_client.h"

/* The sampler answers request `at` (and, if `always`, all after it) with `answer`. */
struct script {
    int64_t at;
    bool always;
    enum fake_answer answer;
};

static enum fake_answer play(int64_t request, void *context)
{
    const struct script *script = context;
    bool now = script->always ? request >= script->at : request == script->at;
    return now ? script->answer : FAKE_RIGHT;
}

/* A feed of 1000 units in batches of 10, drawn one by one on one connection unless changed. */
static void scripted(struct setting *setting, struct script *script)
{
    setting_init(setting, 1000, 10);
    setting->options.pull = FEED_DRAW;
    setting->options.draws_ahead = 1;
    setting->sampler.script = play;
    setting->sampler.context = script;
}

/* Right batches first, then an error; returns how many were right. */
static int64_t check_until_error(struct setting *setting, enum error *ret_error)
{
    const struct feed_batch *batch;
    int64_t batches = 0;
    while (!(*ret_error = feed_next(setting->feed, NULL, &batch))) {
        check_batch(setting, batch, batches * 10, 10);
        assert_ok(feed_put(setting->feed, NULL, batch));
        batches++;
    }
    return batches;
}

/* The error is this one, and stays. */
static int64_t check_until_failure(struct setting *setting, enum error code, const char *text)
{
    const struct feed_batch *batch;
    enum error error;
    int64_t batches = check_until_error(setting, &error);
    assert_fails(error, code, text);
    assert_fails(feed_next(setting->feed, NULL, &batch), code, text);
    return batches;
}

/* ---- the sampler -------------------------------------------------------- */

static void test_wrong_answers(void **state)
{
    (void)state;
    static const struct {
        enum fake_answer answer;
        const char *text;
    } cases[] = {{FAKE_SHORT, "a batch of 10 units in 140 bytes; it takes 152"},
                 {FAKE_NEGATIVE_ID, "id -1 at place 0"},
                 {FAKE_LARGE, "a new batch of 11 units, more than the 10 asked for"},
                 {FAKE_OTHER_EPOCH, "position 170 of stream seed is of epoch 0, not 1 as"},
                 {FAKE_GARBAGE, "not a binary batch"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setting setting;
        struct script script = {.at = 17, .answer = cases[i].answer};
        scripted(&setting, &script);
        setting_open(&setting);
        assert_int_equal(check_until_failure(&setting, ERROR_NETWORK, cases[i].text), 17);
        assert_non_null(strstr(error_message(), setting.sampler.url));
        setting_close(&setting);
    }
}

static void test_wrong_answers_to_an_index(void **state)
{
    (void)state;
    static const struct {
        int64_t at; /* 64 batches of 10 a request: 640 and 360 units */
        enum fake_answer answer;
        enum error code;
        const char *text;
    } cases[] = {{0, FAKE_TOO_MANY, ERROR_NETWORK, "641 units, more than were asked for"},
                 {1, FAKE_TOO_MANY, ERROR_CONFLICT, "361 units"},
                 {1, FAKE_OTHER_EPOCH, ERROR_NETWORK, "epoch 0, not 1 as"},
                 {1, FAKE_OTHER_PLACE, ERROR_CONFLICT, "position 641"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setting setting;
        struct script script = {.at = cases[i].at, .answer = cases[i].answer};
        scripted(&setting, &script);
        setting.options.pull = FEED_INDEX;
        setting_open(&setting);
        assert_int_equal(check_until_failure(&setting, cases[i].code, cases[i].text),
                         cases[i].at * 64);
        setting_close(&setting);
    }
}

static void test_a_draw_larger_than_a_batch(void **state)
{
    (void)state;
    struct setting setting;
    struct script script = {.at = 3, .answer = FAKE_TOO_MANY}; /* such as a redelivered batch */
    const struct feed_batch *batch;
    static const size_t rows[] = {10, 10, 10, 10, 1, 10};
    static const int64_t firsts[] = {0, 10, 20, 30, 40, 40};
    scripted(&setting, &script);
    setting_open(&setting);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        check_batch(&setting, batch, firsts[i], rows[i]);
        assert_int_equal(batch->index, i);
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    setting_close(&setting);
}

static void test_passing_trouble(void **state)
{
    (void)state;
    static const enum fake_answer answers[] = {FAKE_BUSY, FAKE_HANG_UP, FAKE_DIES};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct setting setting;
        struct script script = {.at = 1, .answer = answers[i]};
        scripted(&setting, &script);
        setting.options.pull = FEED_INDEX;
        setting_open(&setting);
        assert_int_equal(check_to_the_end(&setting, 0), 100);
        assert_true(atomic_load(&setting.sampler.descriptions) >=
                    (answers[i] == FAKE_BUSY ? 1 : 2)); /* is it still the same? */
        setting_close(&setting);
    }
}

static void test_another_sampler_after_a_restart(void **state)
{
    (void)state;
    struct setting setting;
    struct script script = {.at = 1, .answer = FAKE_HANG_UP};
    scripted(&setting, &script);
    setting.options.pull = FEED_INDEX;
    setting.sampler.new_seed = true;
    setting_open(&setting);
    assert_int_equal(check_until_failure(&setting, ERROR_CONFLICT,
                                         "its seed was 9223372036854775807 and is 7 now"),
                     64);
    assert_non_null(strstr(error_message(), setting.sampler.url));
    setting_close(&setting);
}

static enum fake_answer hang_up_then_lend(int64_t request, void *context)
{
    const enum fake_answer answers[] = {FAKE_RIGHT, FAKE_HANG_UP, FAKE_LENT};
    (void)context;
    return request < 3 ? answers[request] : FAKE_RIGHT;
}

/* Its first response has no batch yet: the next one is compared. */
static void test_another_sampler_whose_batches_are_leased(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    setting.options.pull = FEED_LEASE;
    setting.options.draws_ahead = 1;
    setting.sampler.script = hang_up_then_lend;
    setting.sampler.new_seed = true;
    setting_open(&setting);
    check_until_failure(&setting, ERROR_CONFLICT, "its seed was 9223372036854775807 and is 7 now");
    setting_close(&setting);
}

static enum fake_answer lose_pairs(int64_t request, void *context)
{
    (void)context;
    return request == 1 || request == 2 || request == 5 ? FAKE_LOST : FAKE_RIGHT;
}

/* A response that was lost for longer than its lease: others have its batch, and this feed gets the
 * next one. */
static void test_leases_whose_responses_were_lost(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    setting.options.pull = FEED_LEASE;
    setting.options.draws_ahead = 1;
    setting.sampler.script = lose_pairs;
    setting_open(&setting);
    assert_int_equal(check_to_the_end(&setting, 0), 100);
    setting_close(&setting);
}

static void test_patience_ends(void **state)
{
    (void)state;
    static const struct {
        enum fake_answer answer;
        enum error code;
        const char *text;
    } cases[] = {{FAKE_BUSY, ERROR_TIMEOUT, "nothing but leased batches"},
                 {FAKE_SILENT, ERROR_TIMEOUT, "no answer in"},
                 {FAKE_HANG_UP, ERROR_NETWORK, "no answer in"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool right = false;
        for (int64_t patience_ms = 500; !right && patience_ms < 100000; patience_ms *= 4) {
            struct setting setting; /* on a busy machine it may end too early: then with more */
            enum error error;
            struct script script = {.at = 5, .always = true, .answer = cases[i].answer};
            scripted(&setting, &script);
            setting.options.patience_ms = patience_ms;
            setting_open(&setting);
            right = check_until_error(&setting, &error) == 5 && error == cases[i].code &&
                    strstr(error_message(), cases[i].text);
            setting_close(&setting);
        }
        assert_true(right);
    }
}

static void test_no_sampler_at_all(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 1000, 10);
    fake_bind(&setting.sampler); /* the port is ours, and nobody listens */
    setting.options.sampler_url = setting.sampler.url;
    setting.options.patience_ms = 0; /* as if this process got no processor in time */
    assert_ok(feed_open(&setting.options, &setting.feed));
    assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_NETWORK, setting.sampler.url);
    feed_close(setting.feed);
    close(setting.sampler.listener);
    device_close(setting.device);
}

static void test_a_sampler_that_comes_late(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    fake_bind(&setting.sampler);
    setting.options.sampler_url = setting.sampler.url;
    assert_ok(feed_open(&setting.options, &setting.feed));
    clock_sleep_ms(150);
    fake_start(&setting.sampler);
    assert_int_equal(check_to_the_end(&setting, 0), 100);
    setting_close(&setting);
}

static void test_what_was_drawn_is_delivered(void **state)
{
    (void)state;
    struct setting setting;
    struct script script = {.at = 40, .always = true, .answer = FAKE_GARBAGE};
    const struct feed_batch *batch;
    int64_t batches = 0, last = -1;
    enum error error;
    scripted(&setting, &script);
    setting.options.draws_ahead = 8;
    setting_open(&setting);
    while (!(error = feed_next(setting.feed, NULL, &batch))) {
        assert_true(batch->first > last); /* a refused draw may lie between */
        last = batch->first;
        batches++;
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    assert_fails(error, ERROR_NETWORK, "not a binary batch");
    assert_int_equal(batches, 40);
    setting_close(&setting);
}

/* ---- the store ---------------------------------------------------------- */

static void test_the_store_fails(void **state)
{
    (void)state;
    for (size_t fetchers = 1; fetchers <= 4; fetchers += 3) {
        struct setting setting;
        setting_init(&setting, 1000, 10);
        setting.options.fetchers = fetchers;
        setting.store.broken_id = fake_id(&setting.sampler, 235);
        setting_open(&setting);
        assert_int_equal(check_until_failure(&setting, ERROR_IO, "disk on fire"), 23);
        setting_close(&setting);
    }
}

static void test_the_earliest_failure_counts(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    setting.options.fetchers = 8;
    setting.store.slow_id = fake_id(&setting.sampler, 110); /* fails last, but comes first */
    setting.store.missing_id = fake_id(&setting.sampler, 112);
    setting.store.broken_id = fake_id(&setting.sampler, 130);
    setting_open(&setting);
    assert_int_equal(check_until_failure(&setting, ERROR_NOT_FOUND, "column p3"), 11);
    setting_close(&setting);
}

static void test_a_bad_row_fails(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    setting.store.bad_id = fake_id(&setting.sampler, 235);
    setting_open(&setting);
    assert_int_equal(check_until_failure(&setting, ERROR_INPUT, "column p3: \"x\" is no number"),
                     23);
    setting_close(&setting);
}

static void open_with_bad_rows(struct setting *setting, enum bad_rows bad_rows)
{
    setting_init(setting, 30, 10);
    setting->options.bad_rows = bad_rows;
    setting->store.bad_id = fake_id(&setting->sampler, 10);
    setting->store.missing_id = fake_id(&setting->sampler, 14);
    setting_open(setting);
}

static void test_bad_rows_are_skipped(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    struct feed_stats stats;
    open_with_bad_rows(&setting, BAD_ROWS_SKIP);
    assert_ok(feed_next(setting.feed, NULL, &batch));
    check_batch(&setting, batch, 0, 10);
    assert_ok(feed_next(setting.feed, NULL, &batch));
    assert_int_equal(batch->rows, 8);
    for (size_t i = 0; i < 8; i++) {
        int64_t id = fake_id(&setting.sampler, 11 + (int64_t)i + (i >= 3));
        assert_int_equal(batch->ids[i], id);
        assert_true(batch->labels[i] == (double)(id % 10));
        const uint8_t *row = (const uint8_t *)batch->features + i * FEATURES;
        for (size_t j = 0; j < FEATURES; j++)
            assert_int_equal(row[j], fake_feature(id, j));
    }
    assert_ok(feed_next(setting.feed, NULL, &batch));
    check_batch(&setting, batch, 20, 10);
    feed_get_stats(setting.feed, &stats);
    assert_int_equal(stats.bad_rows, 2);
    assert_int_equal(stats.rows, 28);
    setting_close(&setting);
}

static void test_a_batch_of_bad_rows_only(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 5, 1);
    setting.options.bad_rows = BAD_ROWS_SKIP;
    setting.store.missing_id = fake_id(&setting.sampler, 2);
    setting_open(&setting);
    for (int64_t i = 0; i < 5; i++) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_int_equal(batch->index, i);
        assert_int_equal(batch->rows, i == 2 ? 0 : 1);
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    assert_int_equal(feed_next(setting.feed, NULL, &batch), ERROR_END);
    setting_close(&setting);
}

static void test_bad_rows_are_replaced(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    struct feed_stats stats;
    open_with_bad_rows(&setting, BAD_ROWS_REPLACE);
    assert_ok(feed_next(setting.feed, NULL, &batch));
    assert_null(feed_row_status(setting.feed, batch));
    assert_ok(feed_next(setting.feed, NULL, &batch));
    assert_int_equal(batch->rows, 10);
    const enum row_status *status = feed_row_status(setting.feed, batch);
    assert_non_null(status);
    for (size_t i = 0; i < 10; i++) {
        bool bad = i == 0 || i == 4;
        assert_int_equal(status[i] != ROW_OK, bad);
        int64_t id = fake_id(&setting.sampler, 10 + (int64_t)i);
        const uint8_t *row = (const uint8_t *)batch->features + i * FEATURES;
        assert_int_equal(batch->ids[i], id);
        assert_true(batch->labels[i] == (bad ? 0 : (double)(id % 10)));
        for (size_t j = 0; j < FEATURES; j++)
            assert_int_equal(row[j], bad ? 0 : fake_feature(id, j));
    }
    feed_get_stats(setting.feed, &stats);
    assert_int_equal(stats.bad_rows, 2);
    setting_close(&setting);
}

/* ---- closing at any time ------------------------------------------------ */

static void close_after(int64_t batches, enum feed_pull pull, size_t held)
{
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 1000, 10);
    setting.options.pull = pull;
    setting.options.fetchers = 2;
    setting.options.expand = true;
    setting.store.delay_us = 200;
    setting_open(&setting);
    for (int64_t i = 0; i < batches; i++) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        if (i >= (int64_t)held)
            assert_ok(feed_put(setting.feed, NULL, batch));
    }
    setting_close(&setting);
}

static void test_close_early(void **state)
{
    (void)state;
    for (int64_t batches = 0; batches < 20; batches += 3) {
        close_after(batches, FEED_INDEX, 0);
        close_after(batches, FEED_DRAW, 2);
    }
}

static void test_close_in_a_blocked_pull(void **state)
{
    (void)state;
    for (size_t draws_ahead = 1; draws_ahead <= 9; draws_ahead += 4) {
        struct setting setting;
        struct script script = {.at = 10, .always = true, .answer = FAKE_SILENT};
        const struct feed_batch *batch;
        scripted(&setting, &script);
        setting.options.patience_ms = -1; /* for ever, but for the close */
        setting.options.draws_ahead = draws_ahead;
        setting_open(&setting);
        for (int i = 0; i < 2; i++)
            assert_ok(feed_next(setting.feed, NULL, &batch));
        setting_close(&setting);
    }
}

static void test_close_while_nobody_is_there(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    fake_bind(&setting.sampler);
    setting.options.sampler_url = setting.sampler.url;
    setting.options.patience_ms = -1;
    assert_ok(feed_open(&setting.options, &setting.feed));
    clock_sleep_ms(60); /* into the pause between two tries */
    feed_close(setting.feed);
    close(setting.sampler.listener);
    device_close(setting.device);
}

/* Without end, but for the close. */
static void test_close_while_the_store_waits(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    setting.store.waits = true;
    setting.options.fetchers = 2;
    setting_open(&setting);
    clock_sleep_ms(60);
    setting_close(&setting);
}

/* The feed is gone for the caller; store and device stay until the thread is back. */
static void test_close_leaves_what_hangs(void **state)
{
    (void)state;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    atomic_store(&setting.store.hangs, true);
    setting.options.close_ms = 20;
    setting.options.fetchers = 2;
    setting_open(&setting);
    while (atomic_load(&setting.store.fetches) < 2)
        clock_sleep_ms(1);
    feed_close(setting.feed);
    device_close(setting.device);
    assert_int_equal(atomic_load(&setting.store.readers), 2);
    assert_int_equal(atomic_load(&setting.store.store.keepers), 1);
    atomic_store(&setting.store.hangs, false);
    while (atomic_load(&setting.store.store.keepers) > 0)
        clock_sleep_ms(1);
    assert_int_equal(atomic_load(&setting.store.readers), 0);
    fake_stop(&setting.sampler);
}

/* Batches come without the cache that is never filled. */
static void test_close_leaves_a_scan_that_hangs(void **state)
{
    (void)state;
    const struct feed_batch *batch;
    struct setting setting;
    setting_init(&setting, 1000, 10);
    atomic_store(&setting.store.scan_hangs, true);
    setting.options.cache_bytes = 1 << 20;
    setting.options.close_ms = 20;
    setting_open(&setting);
    while (atomic_load(&setting.store.scans) < 1)
        clock_sleep_ms(1);
    for (int i = 0; i < 30; i++) {
        assert_ok(feed_next(setting.feed, NULL, &batch));
        assert_ok(feed_put(setting.feed, NULL, batch));
    }
    feed_close(setting.feed);
    device_close(setting.device);
    assert_true(atomic_load(&setting.store.store.keepers) > 0);
    atomic_store(&setting.store.scan_hangs, false);
    while (atomic_load(&setting.store.store.keepers) > 0)
        clock_sleep_ms(1);
    assert_int_equal(atomic_load(&setting.store.readers), 0);
    fake_stop(&setting.sampler);
}

/* In a process of its own: a stop cannot be taken back. */
static void test_a_signal_ends_the_wait(void **state)
{
    (void)state;
    struct setting setting;
    struct script script = {.at = 3, .always = true, .answer = FAKE_SILENT};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct feed_batch *batch;
        enum error error;
        scripted(&setting, &script);
        setting.options.patience_ms = -1;
        if (stop_install())
            _exit(10);
        setting_open(&setting);
        kill(getpid(), SIGTERM);
        while (!(error = feed_next(setting.feed, NULL, &batch))) {
            if (feed_put(setting.feed, NULL, batch))
                _exit(11);
        }
        setting_close(&setting);
        _exit(error == ERROR_CANCELLED ? 0 : 12);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The trainer asked for the stream before it opened the feed: in between it may have changed. */
static void test_a_stream_that_is_another_from_the_start(void **state)
{
    (void)state;
    struct sampler_stream expected = {.name = "default",
                                      .digest = "00112233445566778899aabbccddeeff",
                                      .design = "sequential",
                                      .tail = "keep",
                                      .seed = INT64_MAX,
                                      .units = 100,
                                      .epochs = 1,
                                      .epoch_draws = 100};
    struct setting setting;
    for (int other = 0; other < 2; other++) {
        setting_init(&setting, 100, 10);
        expected.seed -= other;
        setting.options.expected = &expected;
        setting_open(&setting);
        if (other)
            assert_int_equal(check_until_failure(&setting, ERROR_CONFLICT, "its seed was"), 0);
        else
            assert_int_equal(check_to_the_end(&setting, 0), 10);
        setting_close(&setting);
    }
}

/* Four connections wait for one request of labels; when it fails, nobody asks once more. */
static void test_labels_are_asked_for_once(void **state)
{
    (void)state;
    struct setting setting;
    const struct feed_batch *batch;
    setting_init(&setting, 100, 10);
    setting.options.pull = FEED_DRAW;
    setting.sampler.labels = "{\"labels\":7}";
    setting_open(&setting);
    assert_fails(feed_next(setting.feed, NULL, &batch), ERROR_NETWORK, "labels");
    feed_close(setting.feed);
    setting.feed = NULL;
    assert_int_equal(atomic_load(&setting.sampler.connections), 1);
    setting_close(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_signal_ends_the_wait),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_wrong_answers_to_an_index),
        cmocka_unit_test(test_a_draw_larger_than_a_batch),
        cmocka_unit_test(test_passing_trouble),
        cmocka_unit_test(test_another_sampler_after_a_restart),
        cmocka_unit_test(test_another_sampler_whose_batches_are_leased),
        cmocka_unit_test(test_leases_whose_responses_were_lost),
        cmocka_unit_test(test_a_stream_that_is_another_from_the_start),
        cmocka_unit_test(test_labels_are_asked_for_once),
        cmocka_unit_test(test_patience_ends),
        cmocka_unit_test(test_no_sampler_at_all),
        cmocka_unit_test(test_a_sampler_that_comes_late),
        cmocka_unit_test(test_what_was_drawn_is_delivered),
        cmocka_unit_test(test_the_store_fails),
        cmocka_unit_test(test_the_earliest_failure_counts),
        cmocka_unit_test(test_a_bad_row_fails),
        cmocka_unit_test(test_bad_rows_are_skipped),
        cmocka_unit_test(test_a_batch_of_bad_rows_only),
        cmocka_unit_test(test_bad_rows_are_replaced),
        cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_close_in_a_blocked_pull),
        cmocka_unit_test(test_close_while_nobody_is_there),
        cmocka_unit_test(test_close_while_the_store_waits),
        cmocka_unit_test(test_close_leaves_what_hangs),
        cmocka_unit_test(test_close_leaves_a_scan_that_hangs),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
